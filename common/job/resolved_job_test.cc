#include "common/job/resolved_job.h"

#include <google/protobuf/message.h>
#include <sys/resource.h>

#include <fstream>

#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kJob[] = R"(
name: "small"
cluster { workers: 4 shards: 2 }
sync { policy: K_SYNC k: 3 }
data { linear_regression { features: 20 } batch_size: 100 }
model { layer { dense { units: 16 } } layer { tanh {} }
        layer { dense { units: 1 } } }
stop { epochs: 5 }
)";

ResolvedJob Resolve(const std::vector<std::string>& overrides = {}) {
  const auto job = ParseJob(kJob, "job", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  return *job;
}

std::string Error(const std::vector<std::string>& overrides) {
  const absl::Status status = ParseJob(kJob, "job", overrides).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(ResolvedJobTest, WhatFollowsFromTheJobIsWorkedOut) {
  const ResolvedJob job = Resolve();
  EXPECT_EQ(job.data.train_samples, 1024);
  EXPECT_EQ(job.model.layers.size(), 3);
  EXPECT_EQ(job.layout.size(), 20 * 16 + 16 + 16 + 1);
  EXPECT_EQ(job.layout.shards(), 2);
  EXPECT_EQ(job.fingerprint.size(), 64);
}

TEST(ResolvedJobTest, DefaultsAreFilledIn) {
  const proto::Job job = Resolve().job;
  EXPECT_EQ(job.seed(), 1);
  EXPECT_EQ(job.worker().device(), proto::CPU);
  EXPECT_EQ(job.worker().threads(), 1);
  EXPECT_EQ(job.sync().on_bad_gradient(), proto::FAIL);
  EXPECT_EQ(job.optimizer().learning_rate(), 0.01);
  EXPECT_TRUE(job.optimizer().has_sgd());
  EXPECT_TRUE(job.schedule().has_constant());
  EXPECT_EQ(job.model().loss(), proto::Model::MEAN_SQUARED_ERROR);
  EXPECT_EQ(job.model().layer(1).name(), "tanh1");
  EXPECT_TRUE(job.model().layer(0).dense().bias());
  EXPECT_EQ(job.limits().chunk_bytes(), 1 << 20);
  EXPECT_TRUE(job.evaluation().enabled());
}

TEST(ResolvedJobTest, GradientCountsFollowTheWorkersAndThePolicy) {
  EXPECT_EQ(Resolve().job.limits().staged_gradients(), 3 + 4);
  const proto::Job sync = Resolve({"sync={}"}).job;
  EXPECT_EQ(sync.sync().policy(), proto::SYNC);
  EXPECT_EQ(sync.sync().gradients_per_update(), 4);
  EXPECT_EQ(sync.limits().staged_gradients(), 4 + 4);
  const proto::Job async = Resolve({"sync.policy=ASYNC"}).job;
  EXPECT_EQ(async.limits().staged_gradients(), 1 + 4);
  const proto::Job six =
      Resolve({"sync.policy=SYNC", "sync.gradients_per_update=6"}).job;
  EXPECT_EQ(six.limits().staged_gradients(), 6 + 4);
  const proto::Job batch =
      Resolve({"sync.policy=K_BATCH_ASYNC", "sync.k=9"}).job;
  EXPECT_EQ(batch.limits().staged_gradients(), 9 + 4);
}

TEST(ResolvedJobTest, ThereIsRoomForTheLargestK) {
  const std::string schedule = "sync.k_schedule=";
  const proto::Job adaptive =
      Resolve({schedule + "{ adaptive { max_k: 4 } }", "sync.k=2"}).job;
  EXPECT_EQ(adaptive.limits().staged_gradients(), 4 + 4);
  const proto::Job by_version =
      Resolve({"sync.policy=K_BATCH_SYNC",
               schedule +
                   "{ by_version { change { from_version: 1 k: 9 } change "
                   "{ from_version: 3 k: 2 } } }"})
          .job;
  EXPECT_EQ(by_version.limits().staged_gradients(), 9 + 4);
}

TEST(ResolvedJobTest, ThereIsRoomForAGradientOfEachWorkerThatMayJoin) {
  const proto::Job job = Resolve({"sync.k=2", "cluster.max_workers=7"}).job;
  EXPECT_EQ(job.limits().staged_gradients(), 2 + 7);
  EXPECT_EQ(job.sync().gradients_per_update(), 4);
}

TEST(ResolvedJobTest, AnAdaptiveKStartsAtOneAndEndsAtAllWorkers) {
  const std::string text =
      "cluster { workers: 4 } sync { policy: K_SYNC k_schedule { adaptive {} } "
      "} data { linear_regression { features: 3 } } "
      "model { layer { dense { units: 1 } } } stop { updates: 1 }";
  const auto job = ParseJob(text, "test", {});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->job.sync().k(), 1);
  EXPECT_EQ(job->job.sync().k_schedule().adaptive().max_k(), 4);
  EXPECT_EQ(job->job.sync().k_schedule().adaptive().smoothing_updates(), 20);
}

// Checks that every field of `message` with presence is set, except those
// named.
void ExpectAllSet(const Message& message, const std::string& prefix) {
  const auto* reflection = message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message.GetDescriptor()->field(i);
    const std::string path = prefix + field->name();
    // Absence means that there is none.
    if (path == "stop" || path == "sync.staleness" || path == "output" ||
        path == "delays" ||
        ((path == "data.augmentation" || path == "sync.k_schedule" ||
          path == "data.jpeg.contents" || path == "checkpoint" ||
          path == "model.external") &&
         !reflection->HasField(message, field))) {
      continue;
    }
    if (field->is_repeated()) {
      if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) continue;
      for (int j = 0; j < reflection->FieldSize(message, field); ++j) {
        ExpectAllSet(reflection->GetRepeatedMessage(message, field, j),
                     path + ".");
      }
      continue;
    }
    const bool in_oneof = field->real_containing_oneof() != nullptr;
    if (field->has_presence() && !in_oneof) {
      EXPECT_TRUE(reflection->HasField(message, field)) << path;
    }
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
      EXPECT_NE(reflection->GetEnumValue(message, field), 0) << path;
    }
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
        reflection->HasField(message, field)) {
      ExpectAllSet(reflection->GetMessage(message, field), path + ".");
    }
  }
}

TEST(ResolvedJobTest, NoFieldIsLeftWithoutAValue) {
  ExpectAllSet(Resolve().job, "");
  ExpectAllSet(Resolve({"schedule.cosine.epochs=2"}).job, "");
  ExpectAllSet(Resolve({"sync.k_schedule={ adaptive {} }"}).job, "");
  ExpectAllSet(Resolve({"checkpoint.every_s=60"}).job, "");
  ExpectAllSet(Resolve({"schedule.step.every_epochs=2"}).job, "");
  proto::Job images;
  images.mutable_data()->mutable_idx();
  images.mutable_data()->mutable_augmentation()->mutable_random_resized_crop();
  proto::Conv2d* conv2d = images.mutable_model()->add_layer()->mutable_conv2d();
  conv2d->set_channels(2);
  conv2d->set_kernel(3);
  images.mutable_model()->add_layer()->mutable_max_pool()->set_kernel(2);
  images.mutable_model()->add_layer()->mutable_average_pool()->set_kernel(2);
  ResolveDefaults(&images);
  ExpectAllSet(images, "");
  images.mutable_data()->mutable_jpeg();
  ResolveDefaults(&images);
  ExpectAllSet(images, "");
}

TEST(ResolvedJobTest, WhoIsToldWhatImagesThereAreLooksAtNone) {
  const std::string job = R"(
    data { jpeg { train: "nowhere" test: "nowhere" size: 8 } }
    model { layer { flatten {} } layer { dense { units: 3 } } }
    stop { epochs: 1 })";
  EXPECT_FALSE(ParseJob(job, "test", {}).ok());
  const auto told = [&](int samples, int classes) {
    return ParseJob(
        job, "test",
        {absl::StrCat("data.jpeg.contents={train_samples: ", samples,
                      " test_samples: 5 classes: ", classes, "}")});
  };
  const auto resolved = told(70, 3);
  ASSERT_TRUE(resolved.ok()) << resolved.status();
  EXPECT_EQ(resolved->data.train_samples, 70);
  EXPECT_EQ(resolved->data.test_samples, 5);
  EXPECT_THAT(resolved->data.input_shape, ElementsAre(3, 8, 8));
  EXPECT_THAT(std::string(told(70, 4).status().message()),
              HasSubstr("data.jpeg.contents of 4 classes has label 3"));
  // Who lists the images takes part all the same.
  EXPECT_EQ(
      DescribeDifference(FormatJob(resolved->job), FormatJob(told(71, 3)->job)),
      "");
  EXPECT_NE(resolved->fingerprint, told(71, 3)->fingerprint);
}

TEST(ResolvedJobTest, AResolvedJobResolvesToItself) {
  for (const std::vector<std::string>& overrides :
       std::vector<std::vector<std::string>>{
           {},
           {"schedule.cosine.epochs=3", "optimizer.learning_rate=0.1234567"},
           {"sync.policy=ASYNC", "sync.staleness={bound: 3 action: CANCEL}"},
           {"sync.k_schedule={ adaptive {} }"},
           {"name=x", "seed=18446744073709551615"}}) {
    const ResolvedJob once = Resolve(overrides);
    const std::string text = FormatJob(once.job);
    const auto twice = ParseJob(text, "again", {});
    ASSERT_TRUE(twice.ok()) << twice.status();
    EXPECT_EQ(FormatJob(twice->job), text);
    EXPECT_EQ(twice->fingerprint, once.fingerprint);
    EXPECT_EQ(DescribeDifference(text, FormatJob(twice->job)), "");
  }
}

TEST(ResolvedJobTest, TheFingerprintIsThatOfWhatDecidesTheBits) {
  const std::string base = Resolve().fingerprint;
  for (const char* inert :
       {"cluster.coordinator=host:1", "output.run_dir=/elsewhere",
        "evaluation.every_epochs=3", "evaluation.enabled=false",
        "limits.lease_s=9", "limits.start_timeout_s=9",
        "limits.rejoin_timeout_s=9", "limits.task_deadline_s=9",
        "limits.transfer_stall_s=9", "limits.partition_timeout_s=9",
        "limits.regroup_timeout_s=9", "limits.storage_timeout_s=9",
        "limits.model_process_end_s=9", "sync.shortage_timeout_s=9",
        "output.metrics_every_s=9", "output.mode=0640",
        "checkpoint.every_updates=5", "delays.compute.exponential.mean_ms=50",
        // The whole mini-batch, as in a job without it.
        "worker.micro_batch=100", "worker.micro_batch=5000",
        "worker.gpus=[1, 0]"}) {
    EXPECT_EQ(Resolve({inert}).fingerprint, base) << inert;
    EXPECT_EQ(DescribeDifference(FormatJob(Resolve().job),
                                 FormatJob(Resolve({inert}).job)),
              "")
        << inert;
  }
  for (const char* decisive :
       {"seed=2", "cluster.shards=1", "cluster.workers=5", "sync.k=2",
        "optimizer.learning_rate=0.02", "data.batch_size=99",
        "worker.threads=2", "worker.micro_batch=99",
        "model.init_from=/no/weights", "model.layer[0].dense.units=17",
        "model.layer[0].name=first", "limits.chunk_bytes=8192",
        "data.linear_regression.train_samples=1000"}) {
    EXPECT_NE(Resolve({decisive}).fingerprint, base) << decisive;
    EXPECT_NE(DescribeDifference(FormatJob(Resolve().job),
                                 FormatJob(Resolve({decisive}).job)),
              "")
        << decisive;
  }
}

TEST(ResolvedJobTest, ADifferenceIsToldWithItsPathAndBothValues) {
  const std::string here = FormatJob(Resolve().job);
  const auto difference = [&](const std::vector<std::string>& overrides) {
    return DescribeDifference(here, FormatJob(Resolve(overrides).job));
  };
  EXPECT_EQ(difference({"sync.k=4"}), "sync.k: 3 here, 4 there");
  EXPECT_EQ(difference({"model.layer[2].name=last"}),
            "model.layer[2].name: \"dense2\" here, \"last\" there");
  EXPECT_EQ(difference({"stop.updates=7"}),
            "stop.updates: not set here, 7 there");
  EXPECT_EQ(difference({"stop={updates: 7}"}),
            "stop.epochs: 5 here, not set there");
  EXPECT_EQ(difference({"model.layer[1]={name: \"tanh1\" relu{}}"}),
            "model.layer[1].relu: not set here, set there");
  EXPECT_THAT(DescribeDifference(here, "nonsense"),
              HasSubstr("the job there:1:"));
}

TEST(ResolvedJobTest, OfAnotherShardingTheNumberOfWorkersIsNoDifference) {
  const auto difference = [](const std::vector<std::string>& here,
                             const std::vector<std::string>& there) {
    return DescribeDifferenceToResume(FormatJob(Resolve(here).job),
                                      FormatJob(Resolve(there).job));
  };
  const std::string fixed = "data.sharding=STATIC";
  EXPECT_EQ(difference({fixed}, {}),
            "data.sharding: STATIC here, DYNAMIC there");
  EXPECT_EQ(difference({}, {fixed}),
            "data.sharding: DYNAMIC here, STATIC there");
  const std::string more = "cluster.workers=5";
  EXPECT_EQ(difference({}, {more}), "");
  EXPECT_EQ(difference({fixed}, {fixed, more}),
            "cluster.workers: 4 here, 5 there");
}

TEST(ResolvedJobTest, ARunThatGoesOnKeepsWhatWouldFollowFromItsWorkers) {
  // The file does not set SYNC's gradients per update; the run had four
  // workers.
  const std::string path = testing::TempDir() + "/resumed.textproto";
  std::ofstream(path) << absl::StrReplaceAll(kJob,
                                             {{"policy: K_SYNC k: 3", ""}});
  const auto gradients = [&](const std::vector<std::string>& overrides) {
    const auto job = LoadJobToResume(path, Resolve({"sync={}"}).job, overrides);
    EXPECT_TRUE(job.ok()) << job.status();
    return job->job.sync().gradients_per_update();
  };
  EXPECT_EQ(gradients({}), 4);
  EXPECT_EQ(gradients({"cluster.workers=2"}), 4);
  EXPECT_EQ(gradients({"sync.gradients_per_update=3"}), 3);
  std::ofstream(path) << absl::StrReplaceAll(
      kJob, {{"policy: K_SYNC k: 3", "gradients_per_update: 5"}});
  EXPECT_EQ(gradients({"cluster.workers=2"}), 5);
}

// Of four workers, without K in the file: K of the run, and its bound.
TEST(ResolvedJobTest, AKOfAllWorkersFollowsThemWhereTheyBecomeFewer) {
  const std::string path = testing::TempDir() + "/resumed_k.textproto";
  const auto resumed = [&](const std::string& sync,
                           const std::vector<std::string>& overrides) {
    const std::string text =
        absl::StrReplaceAll(kJob, {{"policy: K_SYNC k: 3", sync}});
    std::ofstream(path) << text;
    const auto run = ParseJob(text, "run", {});
    EXPECT_TRUE(run.ok()) << run.status();
    const auto job = LoadJobToResume(path, run->job, overrides);
    EXPECT_TRUE(job.ok()) << job.status();
    if (!job.ok()) return std::string();
    EXPECT_EQ(
        DescribeDifferenceToResume(FormatJob(job->job), FormatJob(run->job)),
        "");
    const proto::Sync& of = job->job.sync();
    return absl::StrCat(of.k(), " ", of.k_schedule().adaptive().max_k());
  };
  const std::string fewer = "cluster.workers=2", more = "cluster.workers=6";
  const std::string adaptive =
      "policy: K_ASYNC k: 1 k_schedule { adaptive {} }";
  EXPECT_EQ(resumed("policy: K_SYNC", {fewer}), "2 0");
  EXPECT_EQ(resumed("policy: K_SYNC", {more}), "4 0");
  EXPECT_EQ(resumed("policy: K_SYNC", {more, "sync.k=6"}), "6 0");
  EXPECT_EQ(resumed(adaptive, {fewer}), "1 2");
  EXPECT_EQ(resumed(adaptive, {more}), "1 4");
  EXPECT_EQ(resumed(absl::StrReplaceAll(adaptive, {{"{}", "{ max_k: 4 }"}}),
                    {fewer, "sync.k_schedule.adaptive.max_k=2"}),
            "1 2");
  // In --set as in the file.
  EXPECT_EQ(
      resumed(adaptive,
              {more, "sync={policy: K_ASYNC k: 1 k_schedule { adaptive {} }}"}),
      "1 4");
  // Where K counts gradients it stays.
  EXPECT_EQ(resumed("policy: K_BATCH_SYNC", {fewer}), "4 0");
}

TEST(ResolvedJobTest, AKBelowTheWorkersIsTheJobs) {
  const auto difference = [](const std::vector<std::string>& here) {
    return DescribeDifferenceToResume(FormatJob(Resolve(here).job),
                                      FormatJob(Resolve().job));
  };
  EXPECT_EQ(difference({"cluster.workers=2", "sync.k=2"}),
            "sync.k: 2 here, 3 there");
  EXPECT_EQ(difference({"cluster.workers=3"}), "");
}

TEST(ResolvedJobTest, OverridesApplyInOrderAndBeforeDefaults) {
  EXPECT_EQ(Resolve({"sync.k=1", "sync.k=2"}).job.sync().k(), 2);
  const ResolvedJob job = Resolve({"cluster.workers=7", "sync={}"});
  EXPECT_EQ(job.job.sync().gradients_per_update(), 7);
}

TEST(ResolvedJobTest, AllViolationsComeAtOnce) {
  const std::string error =
      Error({"sync.k=9", "data.batch_size=0", "optimizer.learning_rate=nan"});
  EXPECT_THAT(error, HasSubstr("sync.k: must be 1 to 4 (cluster.workers) "
                               "under K_SYNC, is 9"));
  EXPECT_THAT(error, HasSubstr("\ndata.batch_size: must be 1 to 1048576, is "
                               "0"));
  EXPECT_THAT(error, HasSubstr("optimizer.learning_rate: "));
}

TEST(ResolvedJobTest, CheckpointsAreWrittenOnlyWhereTheJobSaysWhen) {
  EXPECT_FALSE(Resolve().job.has_checkpoint());
  EXPECT_EQ(Resolve({"checkpoint.every_s=0.5"}).job.checkpoint().keep(), 2);
  EXPECT_EQ(Error({"checkpoint={}"}),
            "checkpoint: must set every_updates or every_s above 0, sets "
            "neither");
  EXPECT_EQ(Error({"checkpoint.every_updates=-1"}),
            "checkpoint.every_updates: must be 0 or more, is -1");
  EXPECT_EQ(Error({"checkpoint={ every_updates: 1 keep: 0 }"}),
            "checkpoint.keep: must be 1 to 1024, is 0");
}

TEST(ResolvedJobTest, WhatOnlyDataAndModelShowIsCheckedToo) {
  EXPECT_THAT(Error({"model.loss=SOFTMAX_CROSS_ENTROPY"}),
              HasSubstr("model.loss: SOFTMAX_CROSS_ENTROPY needs labels"));
  EXPECT_THAT(Error({"model.layer[2].dense.units=2"}),
              HasSubstr("must have 1 output"));
  EXPECT_THAT(Error({"cluster.shards=24"}),
              HasSubstr("cluster.shards: must be 1 to 23 (one per 16 of 353 "
                        "weights), is 24"));
  EXPECT_THAT(
      Error({"data.sharding=STATIC", "data.linear_regression.train_samples=3"}),
      HasSubstr("cluster.workers: must be 1 to 3 (training samples)"));
  EXPECT_THAT(Error({"model.layer[1]={max_pool{kernel: 2}}"}),
              HasSubstr("max_pool1"));
}

TEST(ResolvedJobTest, ACropMustLeaveSomethingOfTheImage) {
  using std::string_literals::operator""s;
  const std::string images = testing::TempDir() + "/images";
  const std::string labels = testing::TempDir() + "/labels";
  std::ofstream(images, std::ios::binary)
      << "\0\0\x08\3\0\0\0\1\0\0\0\3\0\0\0\2abcdef"s;
  std::ofstream(labels, std::ios::binary) << "\0\0\x08\1\0\0\0\1\0"s;
  const auto resolve = [&](const std::string& padding) {
    return ParseJob(kJob, "job",
                    {"data.idx={train_images: '" + images +
                         "' train_labels: '" + labels + "'}",
                     "evaluation.enabled=false", "cluster.shards=1", "sync.k=1",
                     "model={layer {flatten {}} layer {dense "
                     "{units: 2}}}",
                     "data.augmentation.crop_padding=" + padding})
        .status();
  };
  EXPECT_TRUE(resolve("1").ok()) << resolve("1");
  EXPECT_THAT(std::string(resolve("2").message()),
              HasSubstr("data.augmentation.crop_padding: must be 0 to 1 (below "
                        "the images' height and width, 3 x 2), is 2"));
}

TEST(ResolvedJobTest, TextAndModelMustFit) {
  const std::string path = testing::TempDir() + "/text";
  std::ofstream(path) << std::string(50, 'a');
  const auto resolve = [&](const std::string& model) {
    return std::string(
        ParseJob(kJob, "job",
                 {"data.text={train: '" + path + "' length: 10}",
                  "evaluation.enabled=false", "model={" + model + "}"})
            .status()
            .message());
  };
  const std::string embedding = "layer {embedding {features: 8}} ";
  EXPECT_EQ(resolve(embedding + "layer {tied_output {}}"), "");
  EXPECT_EQ(resolve(embedding + "layer {dense {units: 300}}"), "");
  EXPECT_EQ(resolve("layer {dense {units: 300}}"),
            "model.layer: the first layer must be an embedding for data.text");
  EXPECT_EQ(resolve(embedding + "layer {dense {units: 255}}"),
            "model.layer: the last layer must have (10, 256) outputs or more "
            "for data.text, one for each value of a byte at each place, has "
            "(10, 255)");
  EXPECT_THAT(resolve(embedding + "layer {flatten {}}"),
              HasSubstr("at each place, has (80)"));
  EXPECT_EQ(
      resolve("layer {embedding {vocabulary: 255}} layer {attention {}} "
              "layer {layer_norm {epsilon: 0}}"),
      "model.layer[0].embedding.vocabulary: must be 256 to 65536, is 255\n"
      "model.layer[0].embedding.features: must be 1 to 65536, is 0\n"
      "model.layer[1].attention.heads: must be 1 to 1024, is 0\n"
      "model.layer[2].layer_norm.epsilon: must be above 0 and at most "
      "1e+06, is 0");
  const absl::Status real =
      ParseJob(kJob, "job", {"model={" + embedding + "}"}).status();
  EXPECT_EQ(real.message(), "model.layer: an embedding needs data.text");
}

TEST(ResolvedJobTest, AMissingFileIsNamed) {
  const absl::Status no_job = LoadJob("/no/such/job", {}).status();
  EXPECT_EQ(no_job.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(no_job.message()), HasSubstr("/no/such/job"));
  const absl::Status no_data =
      ParseJob(kJob, "job",
               {"data.idx={train_images: '/no/a' train_labels: '/no/b' "
                "test_images: '/no/c' test_labels: '/no/d'}"})
          .status();
  EXPECT_EQ(no_data.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(no_data.message()), HasSubstr("/no/a"));
}

TEST(ResolvedJobTest, AFileThatCannotBeReadJustNowIsNotTakenForAMissingOne) {
  const std::string path = testing::TempDir() + "/job_for_later.textproto";
  std::ofstream(path) << kJob;
  const std::string data = absl::StrReplaceAll(
      "data.idx={train_images: '@' train_labels: '@' test_images: '@' "
      "test_labels: '@'}",
      {{"@", path}});
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const absl::Status no_job = LoadJob(path, {}).status();
  const absl::Status no_data = ParseJob(kJob, "job", {data}).status();
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(no_job, absl::UnavailableError(path + ": Too many open files"));
  EXPECT_EQ(no_data.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(no_data.message()), HasSubstr("Too many open files"));
  // It can be opened, and its first byte cannot be read.
  EXPECT_EQ(LoadJob("/proc/self/mem", {}).status(),
            absl::UnavailableError(
                "/proc/self/mem: cannot be read: Input/output error"));
}

TEST(ResolvedJobTest, AFileIsReadUnderItsName) {
  const std::string path = testing::TempDir() + "/job.textproto";
  std::ofstream(path) << kJob;
  ASSERT_TRUE(LoadJob(path, {"sync.k=2"}).ok());
  std::ofstream(path) << "sync { kk: 1 }";
  EXPECT_THAT(std::string(LoadJob(path, {}).status().message()),
              HasSubstr(path + ":1:10: "));
}

TEST(ResolvedJobTest, AJobThatNoMessageHasRoomForIsRefused) {
  const int64_t others =
      FormatJob(Resolve({"output.run_dir=a"}).job).size() - 1;
  const auto with_length = [&](int64_t bytes) {
    const std::string folder(bytes - others, 'a');
    return ParseJob(kJob, "job", {"output.run_dir=" + folder}).status();
  };
  EXPECT_TRUE(with_length(kMostJobTextBytes).ok());
  EXPECT_EQ(with_length(kMostJobTextBytes + 1),
            absl::InvalidArgumentError(
                "job: has 4194305 bytes with all defaults, a line for each "
                "field, may have 4194304"));
}

TEST(ResolvedJobTest, AFolderAndAnEndlessFileAreRefused) {
  EXPECT_FALSE(LoadJob(testing::TempDir(), {}).ok());
  EXPECT_THAT(std::string(LoadJob("/dev/zero", {}).status().message()),
              HasSubstr("larger than a job file"));
}

}  // namespace
}  // namespace sluice

#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>

#include <cmath>
#include <functional>
#include <limits>

#include "common/job/resolved_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::google::protobuf::FieldDescriptor;
using ::google::protobuf::Message;
using ::google::protobuf::TextFormat;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

// Sets every message there is, so that the walk below meets every field.
constexpr char kFull[] = R"(
cluster { workers: 4 shards: 2 coordinator: "host:1234" }
sync { policy: K_SYNC k: 3 staleness { bound: 2 action: DROP } }
optimizer { learning_rate: 0.1 sgd { momentum: 0.9 nesterov: true } }
schedule { cosine { epochs: 5 } warmup_epochs: 1 linear_scaling: true }
data { linear_regression { features: 20 } batch_size: 100 }
model {
  layer { conv2d { channels: 2 kernel: 3 } }
  layer { max_pool { kernel: 2 } }
  layer { average_pool { kernel: 2 } }
  layer { flatten {} }
  layer { relu {} }
  layer { dense { units: 1 } }
}
stop { epochs: 5 updates: 100 seconds: 60 }
checkpoint { every_updates: 100 every_s: 60 }
)";

proto::Job Full(const std::string& more = "") {
  proto::Job job;
  EXPECT_TRUE(TextFormat::ParseFromString(kFull, &job));
  proto::Job changes;
  EXPECT_TRUE(TextFormat::ParseFromString(more, &changes)) << more;
  job.MergeFrom(changes);
  ResolveDefaults(&job);
  return job;
}

constexpr char kIdx[] =
    "data { idx { train_images: 'a' train_labels: 'b' test_images: 'c' "
    "test_labels: 'd' } }";

// Calls `visit` for each scalar field in `message`, with its path; of a
// repeated one that of its first value, which need not be there.
using Visit =
    std::function<void(const std::string&, const FieldDescriptor*, Message*)>;
void Walk(const std::string& prefix, Message* message, const Visit& visit) {
  const auto* reflection = message->GetReflection();
  for (int i = 0; i < message->GetDescriptor()->field_count(); ++i) {
    const FieldDescriptor* field = message->GetDescriptor()->field(i);
    const std::string path = prefix + field->name();
    if (field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      visit(field->is_repeated() ? path + "[0]" : path, field, message);
    } else if (field->is_repeated()) {
      for (int j = 0; j < reflection->FieldSize(*message, field); ++j) {
        Walk(path + "[" + std::to_string(j) + "].",
             reflection->MutableRepeatedMessage(message, field, j), visit);
      }
    } else if (reflection->HasField(*message, field)) {
      Walk(path + ".", reflection->MutableMessage(message, field), visit);
    }
  }
}

// Gives each field that `spoil` knows a bad value, one at a time; counts them.
using Spoil = std::function<bool(const FieldDescriptor*, Message*)>;
int ExpectEachIsRefused(const proto::Job& valid, const Spoil& spoil) {
  proto::Job job = valid;
  int spoiled = 0;
  Walk("", &job,
       [&](const std::string& path, const FieldDescriptor* field,
           Message* message) {
         const std::unique_ptr<Message> before(message->New());
         before->CopyFrom(*message);
         if (spoil(field, message)) {
           ++spoiled;
           EXPECT_THAT(Validate(job), Contains(StartsWith(path + ": must ")));
         }
         message->CopyFrom(*before);
       });
  return spoiled;
}

constexpr char kAugmentedIdx[] =
    "data { idx { train_images: 'a' train_labels: 'b' test_images: 'c' "
    "test_labels: 'd' } augmentation {} }";

constexpr char kCifar[] =
    "data { cifar { train: 'a' test: 'b' } augmentation {} }";

constexpr char kSynthetic[] = "data { synthetic_images { height: 8 } }";

constexpr char kUnscaled[] = "schedule { linear_scaling: false }";

std::vector<proto::Job> Variants() {
  return {Full(),
          Full(kIdx),
          Full(kAugmentedIdx),
          Full(kCifar),
          Full(kSynthetic),
          Full("schedule { step { every_epochs: 1 } }"),
          Full(std::string("optimizer { adagrad {} }") + kUnscaled),
          Full(std::string("optimizer { adam {} }") + kUnscaled),
          Full(std::string("optimizer { adamw {} }") + kUnscaled),
          Full(std::string("optimizer { averaging {} }") + kUnscaled),
          Full("stop { target_accuracy: 0.5 }" + std::string(kIdx)),
          Full("sync { k_schedule { adaptive {} } }"),
          Full("sync { k_schedule { by_version { change { from_version: 5 "
               "k: 2 } change { from_version: 7 k: 4 } } } }")};
}

TEST(ValidateTest, AValidJobHasNoViolations) {
  for (const proto::Job& job : Variants())
    EXPECT_THAT(Validate(job), IsEmpty());
}

TEST(ValidateTest, NoRealNumberMayBeNanOrInfinite) {
  for (const proto::Job& job : Variants()) {
    for (const double bad :
         {std::nan(""), std::numeric_limits<double>::infinity(),
          -std::numeric_limits<double>::infinity()}) {
      const int spoiled = ExpectEachIsRefused(
          job, [&](const FieldDescriptor* field, Message* message) {
            const auto* reflection = message->GetReflection();
            if (field->cpp_type() != FieldDescriptor::CPPTYPE_DOUBLE) {
              return false;
            }
            if (field->is_repeated()) {
              if (reflection->FieldSize(*message, field) == 0) return false;
              reflection->SetRepeatedDouble(message, field, 0, bad);
              return true;
            }
            if (!reflection->HasField(*message, field)) return false;
            reflection->SetDouble(message, field, bad);
            return true;
          });
      EXPECT_GT(spoiled, 15);
    }
  }
}

TEST(ValidateTest, NoIntegerMayBeNegative) {
  for (const proto::Job& job : Variants()) {
    const int spoiled = ExpectEachIsRefused(
        job, [](const FieldDescriptor* field, Message* message) {
          const auto* reflection = message->GetReflection();
          // Inert under K_SYNC.
          if (field->name() == "gradients_per_update") return false;
          if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT32) {
            field->is_repeated() ? reflection->AddInt32(message, field, -1)
                                 : reflection->SetInt32(message, field, -1);
            return true;
          }
          if (field->cpp_type() == FieldDescriptor::CPPTYPE_INT64) {
            reflection->SetInt64(message, field, -1);
            return true;
          }
          return false;
        });
    EXPECT_GT(spoiled, 20);
  }
}

TEST(ValidateTest, NoEnumerationMayHaveAnUnknownOrNoValue) {
  for (const int bad : {0, 99, -1}) {
    const int spoiled = ExpectEachIsRefused(
        Full(), [&](const FieldDescriptor* field, Message* message) {
          if (field->cpp_type() != FieldDescriptor::CPPTYPE_ENUM) return false;
          message->GetReflection()->SetEnumValue(message, field, bad);
          return true;
        });
    EXPECT_GE(spoiled, 8);
  }
}

// One case: a change of the full job and what must be said of it.
struct Case {
  const char* change;
  const char* violation;
};

class ViolationTest : public testing::TestWithParam<Case> {};

TEST_P(ViolationTest, IsSaidOnceWithFieldBoundAndValue) {
  EXPECT_THAT(Validate(Full(GetParam().change)),
              ElementsAre(HasSubstr(GetParam().violation)))
      << GetParam().change;
}

INSTANTIATE_TEST_SUITE_P(
    Sync, ViolationTest,
    testing::Values(
        Case{"sync { k: 5 }",
             "sync.k: must be 1 to 4 (cluster.workers) under K_SYNC, is 5"},
        Case{"sync { policy: K_ASYNC k: 0 }",
             "sync.k: must be 1 to 4 (cluster.workers) under K_ASYNC, is 0"},
        Case{"sync { policy: K_BATCH_SYNC k: 0 }",
             "sync.k: must be 1 to 65536 under K_BATCH_SYNC, is 0"},
        Case{"sync { policy: SYNC k: -7 }",
             "sync.k: must be 1 to 65536, is -7"},
        Case{"sync { policy: SYNC gradients_per_update: 0 }",
             "sync.gradients_per_update: must be 1 to 65536, is 0"},
        Case{"sync { policy: SYNC k_schedule {} }",
             "sync.k_schedule: must not be set under SYNC, which has no K"},
        Case{"sync { policy: ASYNC k_schedule {} }",
             "sync.k_schedule: must not be set under ASYNC, which has no K"},
        Case{"sync { k_schedule { by_version {} } }",
             "sync.k_schedule.by_version.change: must have at least one, has "
             "none"},
        Case{"sync { k_schedule { by_version { change { k: 2 } } } }",
             "sync.k_schedule.by_version.change[0].from_version: must be set"},
        Case{
            "sync { k_schedule { by_version { change { from_version: 4 } } } }",
            "sync.k_schedule.by_version.change[0].k: must be 1 to 4 "
            "(cluster.workers) under K_SYNC, is 0"},
        Case{"sync { k_schedule { by_version { change { from_version: 4 k: 2 } "
             "change { from_version: 4 k: 3 } } } }",
             "sync.k_schedule.by_version.change[1].from_version: must be 5 to "
             "9007199254740992, is 4"},
        Case{"sync { k_schedule { adaptive { max_k: 2 } } }",
             "sync.k_schedule.adaptive.max_k: must be 3 to 4 "
             "(cluster.workers) under K_SYNC, is 2"},
        Case{"sync { policy: K_BATCH_SYNC k_schedule { adaptive { "
             "smoothing_updates: 0 } } }",
             "sync.k_schedule.adaptive.smoothing_updates: must be 1 to "
             "1048576, is 0"},
        Case{"sync { policy: K_BATCH_SYNC k_schedule { by_version { change { "
             "from_version: 1 k: 9 } } } } limits { staged_gradients: 8 }",
             "must be 9 or more (what one update needs under K_BATCH_SYNC), is "
             "8"},
        Case{"output { digest_every_updates: -1 }",
             "output.digest_every_updates: must be 0 or more, is -1"},
        Case{"sync { policy: SYNC gradients_per_update: 5 } "
             "data { sharding: STATIC }",
             "sync.gradients_per_update: must be 4 (cluster.workers, the "
             "partitions) under SYNC with data.sharding STATIC, is 5"},
        Case{"sync { local_steps: 0 }",
             "sync.local_steps: must be 1 to 65536, is 0"},
        Case{"sync { local_steps: 4 } data { sharding: STATIC }",
             "sync.local_steps: must be 1 with data.sharding STATIC, is 4"},
        Case{"limits { staged_gradients: 2 }",
             "limits.staged_gradients: must be 3 or more (what one update "
             "needs under K_SYNC), is 2"},
        Case{"sync { policy: SYNC gradients_per_update: 9 "
             "on_bad_gradient: SKIP } limits { staged_gradients: 8 }",
             "must be 9 or more (what one update needs under SYNC, but with "
             "on_bad_gradient: FAIL), is 8"},
        Case{"sync { policy: SYNC gradients_per_update: 9 } "
             "limits { staged_gradients: 0 }",
             "limits.staged_gradients: must be 1 or more, is 0"}));

INSTANTIATE_TEST_SUITE_P(
    OptimizerAndSchedule, ViolationTest,
    testing::Values(
        Case{"optimizer { group {} }",
             "optimizer.group[0].tensor: must name at least one tensor"},
        Case{"optimizer { group { tensor: '*' learning_rate_factor: -1 } }",
             "optimizer.group[0].learning_rate_factor: must be 0 to 1e+06, is "
             "-1"},
        Case{"optimizer { group { tensor: '*' weight_decay_factor: -1 } }",
             "optimizer.group[0].weight_decay_factor: must be 0 to"},
        Case{"sync { local_steps: 2 } optimizer { group { tensor: '*' "
             "learning_rate_factor: 2 } }",
             "optimizer.group[0].learning_rate_factor: must be 1 with "
             "sync.local_steps above 1 (all tensors make local steps at one "
             "rate), is 2"},
        Case{"optimizer { learning_rate: 0 }",
             "optimizer.learning_rate: must be above 0"},
        Case{"optimizer { sgd { momentum: 1 } }",
             "optimizer.sgd.momentum: must be at least 0 and below 1, is 1"},
        Case{"optimizer { sgd { momentum: 0 } }",
             "optimizer.sgd.nesterov: needs optimizer.sgd.momentum above 0"},
        Case{"optimizer { sgd { weight_decay: -1 } }",
             "optimizer.sgd.weight_decay: must be 0 to 1e+06, is -1"},
        Case{"optimizer { adam {} }",
             "schedule.linear_scaling: must be false without optimizer.sgd"},
        Case{"optimizer { averaging {} }",
             "schedule.linear_scaling: must be false without optimizer.sgd"},
        Case{"optimizer { adagrad { initial_accumulator: 0 } } "
             "schedule { linear_scaling: false }",
             "optimizer.adagrad.initial_accumulator: must be above 0"},
        Case{"optimizer { adam { beta1: 1 } } "
             "schedule { linear_scaling: false }",
             "optimizer.adam.beta1: must be at least 0 and below 1, is 1"},
        Case{"optimizer { adamw { epsilon: 0 } } "
             "schedule { linear_scaling: false }",
             "optimizer.adamw.epsilon: must be above 0"},
        Case{"optimizer { adamw { epsilon: 1e-60 } } "
             "schedule { linear_scaling: false }",
             "optimizer.adamw.epsilon: is 1e-60, which is 0 in float32"},
        Case{"schedule { cosine { final_factor: 1.5 } }",
             "schedule.cosine.final_factor: must be 0 to 1, is 1.5"},
        Case{"schedule { step { every_epochs: 1 factor: 2 } }",
             "schedule.step.factor: must be above 0 and at most 1, is 2"},
        Case{"schedule { step {} }",
             "schedule.step.every_epochs: must be above 0"},
        Case{"schedule { step { every_epochs: 1 at_epochs: 2 } }",
             "schedule.step.every_epochs: must not be set with "
             "schedule.step.at_epochs"},
        Case{"schedule { step { at_epochs: [2, 2] } }",
             "schedule.step.at_epochs[1]: must be above 2 and at most 1e6, is "
             "2"}));

INSTANTIATE_TEST_SUITE_P(
    Model, ViolationTest,
    testing::Values(
        Case{"model { layer {} }",
             "model.layer[6]: must name a kind: dense, conv2d, max_pool"},
        Case{"model { layer { name: 'relu4' tanh {} } }",
             "model.layer[6].name: must be another than model.layer[4]'s, is "
             "\"relu4\" too"},
        Case{"model { layer { name: 'a/b' tanh {} } }",
             "model.layer[6].name: must be 1 to 64 letters"},
        Case{"model { layer { batch_norm { momentum: 0 } } }",
             "model.layer[6].batch_norm.momentum: must be above 0 and at most "
             "1, is 0"},
        Case{"model { layer { batch_norm { epsilon: 0 } } }",
             "model.layer[6].batch_norm.epsilon: must be above 0 and at most "
             "1e+06, is 0"},
        Case{"model { layer { group_norm { groups: 0 } } }",
             "model.layer[6].group_norm.groups: must be 1 to 65536, is 0"},
        Case{"model { layer { group_norm { epsilon: 0 } } }",
             "model.layer[6].group_norm.epsilon: must be above 0 and at most "
             "1e+06, is 0"},
        Case{"model { layer { dropout { rate: 1 } } }",
             "model.layer[6].dropout.rate: must be at least 0 and below 1, is "
             "1"},
        Case{"model { layer { repeat { layer { relu {} } } } }",
             "model.layer[6].repeat.times: must be 1 to 1024, is 0"},
        Case{"model { layer { residual {} } }",
             "model.layer[6].residual.layer: must have at least one layer"},
        Case{"model { layer { residual { layer { name: 'a' relu {} } "
             "layer { name: 'a' tanh {} } } } }",
             "model.layer[6].residual.layer[1].name: must be another than "
             "model.layer[6].residual.layer[0]'s"},
        Case{"model { layer { max_pool {} } }",
             "model.layer[6].max_pool.kernel: must be 1 to 4096, is 0"},
        Case{"model { layer { dense {} } }",
             "model.layer[6].dense.units: must be 1 to 16777216, is 0"}));

INSTANTIATE_TEST_SUITE_P(
    TheRest, ViolationTest,
    testing::Values(
        Case{"name: '../up'", "name: must be 1 to 64 letters"},
        Case{"cluster { workers: 65537 }",
             "cluster.workers: must be 1 to 65536, is 65537"},
        Case{"cluster { max_workers: 3 }",
             "cluster.max_workers: must be 4 to 65536 (from cluster.workers)"},
        Case{"cluster { max_workers: 5 } data { sharding: STATIC }",
             "cluster.max_workers: must be 4 to 4 (cluster.workers, the "
             "partitions), is 5"},
        Case{"cluster { coordinator: 'host' }",
             "[IPv6]:port\" with a port of 0 to 65535, is \"host\""},
        Case{"cluster { coordinator: 'host:99999' }", "\"host:99999\""},
        Case{"worker { clip_norm: -1 }",
             "worker.clip_norm: must be 0 to 1e+06, is -1"},
        Case{"worker { threads: 0 }", "worker.threads: must be 1 to 256, is 0"},
        Case{"worker { micro_batch: 0 }",
             "worker.micro_batch: must be 1 to 1048576, is 0"},
        Case{"worker { gpus: [0, 1024] }",
             "worker.gpus[1]: must be 0 to 1023, is 1024"},
        Case{"limits { chunk_bytes: 5000 }",
             "limits.chunk_bytes: must be a multiple of 64, is 5000"},
        Case{"limits { chunk_bytes: 8388608 }",
             "limits.chunk_bytes: must be 4096 to 4194304, is 8388608"},
        Case{"limits { lease_s: 0.05 }",
             "limits.lease_s: must be 0.1 to 3e+10, is 0.05"},
        Case{"stop { target_accuracy: 0.5 }",
             "stop.target_accuracy: needs labels"},
        Case{"stop { updates: 0 }", "stop.updates: must be 1 or more, is 0"}));

TEST(ValidateTest, AnAbsurdNumberOfWorkersIsSaidOnce) {
  for (const int workers : {0, -1, 65537}) {
    for (const auto policy :
         {proto::SYNC, proto::K_SYNC, proto::K_ASYNC, proto::K_BATCH_ASYNC}) {
      proto::Job job;
      ASSERT_TRUE(TextFormat::ParseFromString(kFull, &job));
      job.clear_sync();
      job.mutable_sync()->set_policy(policy);
      job.mutable_cluster()->set_workers(workers);
      ResolveDefaults(&job);
      EXPECT_THAT(Validate(job),
                  ElementsAre(StartsWith("cluster.workers: must be 1 to")))
          << workers << " " << proto::Policy_Name(policy);
    }
  }
}

TEST(ValidateTest, SomethingMustEndTheRun) {
  proto::Job job = Full();
  job.clear_stop();
  EXPECT_THAT(Validate(job), ElementsAre(HasSubstr("at least one of epochs")));
}

TEST(ValidateTest, ATargetAccuracyNeedsEvaluations) {
  const std::string target = std::string(kIdx) + "stop{target_accuracy: 0.9}";
  EXPECT_THAT(Validate(Full(target)), IsEmpty());
  EXPECT_THAT(Validate(Full(target + "evaluation { every_epochs: 0 }")),
              ElementsAre(HasSubstr("needs evaluation.enabled")));
  EXPECT_THAT(Validate(Full(target + "evaluation { enabled: false }")),
              ElementsAre(HasSubstr("needs evaluation.enabled")));
}

TEST(ValidateTest, AModelMustHaveLayers) {
  proto::Job job = Full();
  job.mutable_model()->clear_layer();
  EXPECT_THAT(Validate(job),
              ElementsAre(HasSubstr("model.layer: must have at least one")));
}

TEST(ValidateTest, ABoundOnStalenessMustBeWhole) {
  proto::Job job = Full();
  job.mutable_sync()->mutable_staleness()->Clear();
  EXPECT_THAT(
      Validate(job),
      ElementsAre(HasSubstr("sync.staleness.action: must be one of WAIT, DROP, "
                            "CANCEL, DOWNWEIGHT, is not set"),
                  HasSubstr("sync.staleness.bound: must be set")));
}

TEST(ValidateTest, WhatAPolicyDoesNotUseIsNotChecked) {
  // So that --set sync.policy=... is enough to try another one.
  for (const char* change :
       {"sync { policy: ASYNC k: 99 gradients_per_update: 99 }",
        "sync { policy: SYNC k: 99 gradients_per_update: 7 }",
        "sync { policy: K_BATCH_SYNC k: 99 }",
        "sync { policy: K_BATCH_ASYNC k: 99 }",
        "sync { policy: SYNC staleness { bound: 1 action: WAIT } }",
        "worker { device: CUDA }", "evaluation { enabled: false }"}) {
    EXPECT_THAT(Validate(Full(change)), IsEmpty()) << change;
  }
}

}  // namespace
}  // namespace sluice

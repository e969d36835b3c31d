#include "cli/report/job/check.h"

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "cli/report/job/check_report.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using ::testing::ContainsRegex;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

// 20 * 16 + 16 + 16 + 1 = 353 weights, 1412 bytes; 1000 samples make 10
// mini-batches.
constexpr char kJob[] = R"(
cluster { workers: 4 shards: 2 }
sync { policy: K_SYNC k: 2 }
optimizer { learning_rate: 0.1 }
data { linear_regression { features: 20 train_samples: 1000 }
       batch_size: 100 }
model { layer { name: "a" dense { units: 16 } } layer { tanh {} }
        layer { name: "b" dense { units: 1 } } }
stop { epochs: 5 }
)";

ResolvedJob Resolve(const std::vector<std::string>& overrides = {}) {
  const auto job = ParseJob(kJob, "job", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  return *job;
}

CheckReport Report(const std::vector<std::string>& overrides = {}) {
  return MakeCheckReport(Resolve(overrides));
}

TEST(CheckReportTest, EachTensorIsOnTheShardsThatHoldAPartOfIt) {
  // 23 units of 16 floats: 11 and 12, so the cut is at float 176.
  EXPECT_THAT(Report().tensor_shards,
              ElementsAre(ElementsAre(0, 1), ElementsAre(1), ElementsAre(1),
                          ElementsAre(1)));
  EXPECT_THAT(Report({"cluster.shards=1"}).tensor_shards, Each(ElementsAre(0)));
}

TEST(CheckReportTest, MemoryOfAShardIsWeightsStateAndRoom) {
  const CheckReport plain = Report({"cluster.shards=1"});
  ASSERT_THAT(plain.shards, SizeIs(1));
  EXPECT_EQ(plain.shards[0].weights, 1412 * (1 + 2));
  EXPECT_EQ(plain.shards[0].optimizer_state, 0);
  EXPECT_EQ(plain.shards[0].staged_gradients, 1412 * (2 + 4));
  EXPECT_EQ(plain.shards[0].total(), 1412 * (3 + 6));
  const CheckReport momentum =
      Report({"cluster.shards=1", "optimizer.sgd.momentum=0.9",
              "limits.max_held=5", "limits.staged_gradients=3"});
  EXPECT_EQ(momentum.shards[0].total(), 1412 * (6 + 1 + 3));
  const CheckReport checkpoints = Report(
      {"cluster.shards=1", "optimizer.sgd.momentum=0.9", "limits.max_held=5",
       "limits.staged_gradients=3", "checkpoint.every_updates=100"});
  EXPECT_EQ(checkpoints.shards[0].total(), 1412 * (7 + 2 + 3));
}

TEST(CheckReportTest, CheckpointsAreSaidToNeedAFolderThatAllShardsReach) {
  const auto said = [](const std::vector<std::string>& overrides) {
    std::ostringstream out;
    PrintCheck(Resolve(overrides), /*profile=*/nullptr, /*json=*/false, out);
    return out.str();
  };
  EXPECT_THAT(said({}), Not(HasSubstr("checkpoints:")));
  const std::string stored = "checkpoint={ every_updates: 9 keep: 3 }";
  EXPECT_THAT(said({stored, "cluster.shards=1"}),
              HasSubstr("\ncheckpoints: 1.4 KiB each, 3 are kept\n"));
  EXPECT_THAT(said({stored, "optimizer.sgd.momentum=0.9"}),
              HasSubstr("\ncheckpoints: 2.8 KiB each, 3 are kept; all shards "
                        "must reach the run folder, or each has a disk"));
}

TEST(CheckReportTest, ACheckpointIsTheWeightsAndTheOptimizersState) {
  EXPECT_EQ(Report({}).checkpoint_bytes, 0);
  EXPECT_EQ(Report({"checkpoint={ every_updates: 9 }", "optimizer.adam={}"})
                .checkpoint_bytes,
            3 * 1412);
}

TEST(CheckReportTest, DescriptorsAreThoseOfAllWhoMayConnect) {
  const DescriptorNeeds few = Report({"evaluation.enabled=false"}).descriptors;
  const DescriptorNeeds many =
      Report({"evaluation.enabled=false", "cluster.max_workers=1000"})
          .descriptors;
  // A session, a bulk connection, and the socket of shared memory.
  EXPECT_EQ(many.lead - few.lead, 3 * (1000 - 4));
  EXPECT_EQ(many.shard - few.shard, 2 * (1000 - 4));
  EXPECT_EQ(many.worker, few.worker);
  EXPECT_EQ(many.most(), many.lead);
  const DescriptorNeeds evaluated = Report().descriptors;
  EXPECT_EQ(evaluated.lead - few.lead, 3);
  const DescriptorNeeds wide =
      Report({"evaluation.enabled=false", "cluster.shards=12"}).descriptors;
  EXPECT_EQ(wide.lead - few.lead, 10);
  EXPECT_EQ(wide.worker - few.worker, 2 * 10);
  EXPECT_EQ(wide.shard, few.shard);
}

TEST(CheckReportTest, EachOptimizerKeepsItsArrays) {
  const auto state = [](const std::string& optimizer) {
    return Report({"cluster.shards=1", "optimizer={" + optimizer + "}"})
        .shards[0]
        .optimizer_state;
  };
  EXPECT_EQ(state("sgd {}"), 0);
  EXPECT_EQ(state("sgd { momentum: 0.5 }"), 1412);
  EXPECT_EQ(state("adagrad {}"), 1412);
  EXPECT_EQ(state("adam {}"), 2 * 1412);
  EXPECT_EQ(state("adamw {}"), 2 * 1412);
  EXPECT_EQ(state("averaging {}"), 0);
}

TEST(CheckReportTest, ShardsTogetherHoldWhatOneWould) {
  const CheckReport two = Report();
  ASSERT_THAT(two.shards, SizeIs(2));
  EXPECT_EQ(two.shards[0].total() + two.shards[1].total(), 1412 * (3 + 6));
}

TEST(CheckReportTest, MemoryOfAWorkerIsWeightsGradientActivationsAndData) {
  const WorkerMemory worker = Report().worker;
  EXPECT_EQ(worker.weights, 2 * 1412);  // Of this version and the next.
  EXPECT_EQ(Report({"sync.policy=ASYNC"}).worker.weights, 1412);
  EXPECT_EQ(worker.gradient, 1412);
  // Outputs 16 + 16 + 1, and twice the largest array, the 20 inputs.
  EXPECT_EQ(worker.activations, 100 * (33 + 40) * 4);
  EXPECT_EQ(worker.batch, 100 * 21 * 4);
  EXPECT_EQ(worker.training_data, 1000 * 21 * 4);
}

TEST(CheckReportTest, ActivationsHaveTwoBytesInBf16AndFp16) {
  for (const std::string precision : {"BF16", "FP16"}) {
    const WorkerMemory worker =
        Report({"worker.device=CUDA", "worker.precision=" + precision}).worker;
    // With the inputs, which are brought to 16 bits.
    EXPECT_EQ(worker.activations, 100 * (33 + 40 + 20) * 2);
    EXPECT_EQ(worker.weights, 2 * 1412);
  }
  EXPECT_EQ(Report({"worker.device=CUDA", "worker.precision=TF32"})
                .worker.activations,
            100 * (33 + 40) * 4);
}

// Of a model on 2 x 4 x 4 images.
int64_t ActivationsOfImages(const std::string& precision) {
  const auto job =
      ParseJob(R"(
      cluster { workers: 1 shards: 1 }
      sync { policy: SYNC }
      optimizer { learning_rate: 0.1 }
      data { synthetic_images { channels: 2 height: 4 } batch_size: 10 }
      model { layer { conv2d { channels: 3 kernel: 1 } } layer { flatten {} }
              layer { dense { units: 10 } } }
      stop { epochs: 1 }
  )",
               "job", {"worker.device=CUDA", "worker.precision=" + precision});
  EXPECT_TRUE(job.ok()) << job.status();
  return MakeCheckReport(*job).worker.activations;
}

TEST(CheckReportTest, AFlattenThatMovesNumbersHasActivationsOfItsOwn) {
  // Outputs of 48 and 10 numbers, and twice the largest array.
  EXPECT_EQ(ActivationsOfImages("FP32"), 10 * (48 + 10 + 2 * 48) * 4);
  // With the inputs, and the flatten's output.
  EXPECT_EQ(ActivationsOfImages("BF16"), 10 * (32 + 48 + 48 + 10 + 2 * 48) * 2);
}

TEST(CheckReportTest, AnEmbeddingsInputsAreNotBroughtTo16Bits) {
  const std::string path = testing::TempDir() + "/check_text";
  std::ofstream(path) << std::string(100, 'a');
  const auto job =
      ParseJob(absl::StrCat(R"(
      cluster { workers: 1 shards: 1 }
      sync { policy: SYNC }
      optimizer { learning_rate: 0.1 }
      data { text { train: ")",
                            path, R"(" length: 5 } batch_size: 10 }
      model { layer { embedding { features: 3 } }
              layer { dense { units: 256 } } }
      evaluation { enabled: false }
      stop { epochs: 1 }
  )"),
               "job", {"worker.device=CUDA", "worker.precision=BF16"});
  ASSERT_TRUE(job.ok()) << job.status();
  // Outputs of 5 places, and twice the largest array.
  EXPECT_EQ(MakeCheckReport(*job).worker.activations,
            10 * 5 * (3 + 256 + 2 * 256) * 2);
}

TEST(CheckReportTest, MicroBatchesBoundActivationsAndNeedAnotherGradient) {
  const WorkerMemory worker = Report({"worker.micro_batch=10"}).worker;
  EXPECT_EQ(worker.weights, 2 * 1412);
  EXPECT_EQ(worker.gradient, 2 * 1412);
  EXPECT_EQ(worker.activations, 10 * (33 + 40) * 4);
  EXPECT_EQ(worker.batch, 2 * 10 * 21 * 4);
  EXPECT_EQ(Report({"worker.micro_batch=1000"}).worker.total(),
            Report().worker.total());
}

struct PolicyCase {
  const char* sync;
  int gradients;
  int pulls;
  double staleness;
};

class PolicyReportTest : public testing::TestWithParam<PolicyCase> {};

TEST_P(PolicyReportTest, GradientsPullsAndStalenessFollowFromThePolicy) {
  const PolicyCase& p = GetParam();
  const CheckReport report = Report({absl::StrCat("sync={", p.sync, "}")});
  EXPECT_EQ(report.update.gradients, p.gradients);
  EXPECT_EQ(report.update.pulls, p.pulls);
  EXPECT_EQ(report.update.push_bytes, p.gradients * 1412);
  EXPECT_EQ(report.update.pull_bytes, p.pulls * 1412);
  EXPECT_DOUBLE_EQ(report.update.per_epoch, 10.0 / p.gradients);
  EXPECT_DOUBLE_EQ(report.expected_staleness, p.staleness);
}

INSTANTIATE_TEST_SUITE_P(
    AllPolicies, PolicyReportTest,
    testing::Values(PolicyCase{"policy: SYNC", 4, 4, 0},
                    PolicyCase{"policy: SYNC gradients_per_update: 6", 6, 6, 0},
                    PolicyCase{"policy: K_SYNC k: 3", 3, 4, 0},
                    PolicyCase{"policy: K_BATCH_SYNC k: 2", 2, 4, 0},
                    PolicyCase{"policy: K_BATCH_SYNC k: 9", 9, 9, 0},
                    PolicyCase{"policy: ASYNC", 1, 1, 3},
                    PolicyCase{"policy: K_ASYNC k: 1", 1, 1, 3},
                    PolicyCase{"policy: K_ASYNC k: 2", 2, 2, 1},
                    PolicyCase{"policy: K_ASYNC k: 4", 4, 4, 0},
                    PolicyCase{"policy: K_BATCH_ASYNC k: 2", 2, 2, 1.5}));

TEST(CheckReportTest, WorkersThatMayJoinAreCountedAsIfTheyHad) {
  const std::string more = "cluster.max_workers=8";
  EXPECT_EQ(Report({more}).update.pulls, 8);
  EXPECT_EQ(Report({more}).update.gradients, 2);
  EXPECT_EQ(Report({more}).shards[0].staged_gradients,
            Report().shards[0].staged_gradients / (2 + 4) * (2 + 8));
  EXPECT_EQ(Report({more, "sync.policy=ASYNC"}).expected_staleness, 7);
}

TEST(CheckReportTest, FactorsOfNoWorkerAreWarnedOf) {
  const std::string five = "delays.worker_factor=[1, 1, 1, 1, 3]";
  EXPECT_THAT(
      Report({five, "cluster.workers=4"}).warnings,
      ElementsAre(AllOf(HasSubstr("worker_factor has 5 entries"),
                        HasSubstr("behind the first 4 are of no worker"))));
  EXPECT_THAT(Report({five, "cluster.workers=5"}).warnings, IsEmpty());
  EXPECT_THAT(Report({five, "cluster.max_workers=5"}).warnings, IsEmpty());
}

TEST(CheckReportTest, WithABoundTheStalenessIsOnlyAtMostWhatIsExpected) {
  const auto bounded = [](const std::string& action) {
    return Report({"sync.policy=ASYNC",
                   "sync.staleness={bound: 2 action: " + action + "}"})
        .staleness_is_bounded;
  };
  for (const char* action : {"DROP", "CANCEL", "WAIT"}) {
    EXPECT_TRUE(bounded(action)) << action;
  }
  EXPECT_FALSE(bounded("DOWNWEIGHT")) << "they are as stale as ever";
  EXPECT_FALSE(Report({"sync.policy=ASYNC"}).staleness_is_bounded);
}

TEST(CheckReportTest, NoGradientIsStalerThanABoundThatRefusesIt) {
  const auto expected = [](const std::string& staleness) {
    return Report({"sync.policy=ASYNC", "sync.staleness={" + staleness + "}"})
        .expected_staleness;
  };
  EXPECT_EQ(expected("bound: 0 action: DROP"), 0);
  EXPECT_EQ(expected("bound: 2 action: CANCEL"), 2);
  EXPECT_EQ(expected("bound: 9 action: DROP"), 3);
  EXPECT_EQ(expected("bound: 0 action: WAIT"), 3);
  EXPECT_EQ(expected("bound: 0 action: DOWNWEIGHT"), 3);
  EXPECT_THAT(Report({"sync.policy=ASYNC", "optimizer.sgd.momentum=0.9",
                      "sync.staleness={ bound: 0 action: DROP }"})
                  .warnings,
              IsEmpty());
}

TEST(CheckReportTest, AnUpdateMovesTheBytesOfItsTypes) {
  const CheckReport report =
      Report({"sync.policy=SYNC", "wire={ pull: BF16 push: FP16 }"});
  EXPECT_EQ(report.update.pull_bytes, report.update.pulls * 2 * 353);
  // With an exponent for each 16 floats.
  EXPECT_EQ(report.update.push_bytes, report.update.gradients * (2 * 353 + 23));
}

TEST(CheckReportTest, LocalStepsMakeFewerUpdatesAndTakeMoreMemory) {
  const CheckReport one = Report({"sync.policy=SYNC"});
  const CheckReport five = Report({"sync.policy=SYNC", "sync.local_steps=5"});
  EXPECT_DOUBLE_EQ(five.update.per_epoch, one.update.per_epoch / 5);
  EXPECT_EQ(five.update.push_bytes, one.update.push_bytes);
  EXPECT_EQ(five.worker.gradient, 2 * one.worker.gradient);
  EXPECT_EQ(five.worker.weights, 3 * 1412);
  EXPECT_EQ(one.worker.weights, 2 * 1412);
  EXPECT_EQ(five.worker.batch, 2 * one.worker.batch);
}

TEST(CheckReportTest, EachPartitionMayEndWithAShortMiniBatch) {
  EXPECT_EQ(Report().batches_per_epoch, 10);
  // Four partitions of 250 samples: three mini-batches each.
  EXPECT_EQ(Report({"data.sharding=STATIC"}).batches_per_epoch, 12);
}

TEST(CheckReportTest, TheRateIsThatOfAWholeUpdate) {
  EXPECT_DOUBLE_EQ(Report().rate.first, 0.1);
  EXPECT_DOUBLE_EQ(Report().rate.after_warmup, 0.1);
  const CheckReport scaled = Report({"schedule.linear_scaling=true"});
  EXPECT_DOUBLE_EQ(scaled.rate.first, 0.2);
  const CheckReport warm =
      Report({"schedule.linear_scaling=true", "schedule.warmup_epochs=2"});
  EXPECT_NEAR(warm.rate.first, 0.1, 0.001);
  EXPECT_DOUBLE_EQ(warm.rate.after_warmup, 0.2);
}

TEST(CheckReportTest, AScheduleOfKIsCountedFromVersion0) {
  const std::string by_version =
      "sync.k_schedule={ by_version {"
      " change { from_version: 0 k: 100 } change { from_version: 9 k: 50 } } }";
  const CheckReport batches =
      Report({"sync.policy=K_BATCH_ASYNC", "sync.k=1", by_version,
              "schedule.linear_scaling=true"});
  EXPECT_DOUBLE_EQ(batches.expected_staleness, 0.03);
  EXPECT_DOUBLE_EQ(batches.rate.first, 10);
  EXPECT_DOUBLE_EQ(batches.rate.least_after_warmup, 5);
  EXPECT_DOUBLE_EQ(batches.update.most_per_epoch, 0.2);
  EXPECT_DOUBLE_EQ(batches.update.per_epoch, 0.1);
}

TEST(PrintCheckTest, AScheduleOfKMakesRanges) {
  std::ostringstream out;
  PrintCheck(Resolve({"sync.k=1", "schedule.linear_scaling=true",
                      "sync.k_schedule={ adaptive { max_k: 4 } }"}),
             /*profile=*/nullptr, /*json=*/false, out);
  EXPECT_THAT(out.str(), HasSubstr("100, 2.5 to 10.0 updates\n"));
  EXPECT_THAT(out.str(), HasSubstr("1 to 4 gradients under K_SYNC by 4 "
                                   "workers; at most, pull 5.5 KiB (4 times"));
  EXPECT_THAT(out.str(),
              HasSubstr("0.1 at the first update, 0.1 to 0.4 after warm-up"));
}

TEST(CheckReportTest, MomentumOnStaleGradientsIsWarnedOf) {
  EXPECT_THAT(Report({"sync.policy=ASYNC"}).warnings, IsEmpty());
  EXPECT_THAT(Report({"optimizer.sgd.momentum=0.9"}).warnings, IsEmpty());
  EXPECT_THAT(
      Report({"sync.policy=ASYNC", "optimizer.sgd.momentum=0.9"}).warnings,
      ElementsAre(HasSubstr("about 3 versions stale")));
  // A staleness of 1 is not yet above 1.
  EXPECT_THAT(
      Report({"sync.policy=K_ASYNC", "optimizer.sgd.momentum=0.9"}).warnings,
      IsEmpty());
}

TEST(CheckReportTest, MoreGradientsThanTheOtherGroupsHaveAreWarnedOf) {
  const std::string slots = "worker.group={ pipeline_stages: 2 slots: 2 }";
  EXPECT_THAT(Report({slots}).warnings, IsEmpty());
  EXPECT_THAT(
      Report({slots, "sync.k=3"}).warnings,
      ElementsAre(StartsWith("sync.k is 3, and while one of 2 groups is "
                             "gone there are 2 workers")));
  EXPECT_THAT(
      Report({slots, "sync.k_schedule={ adaptive { max_k: 4 } }"}).warnings,
      ElementsAre(StartsWith("sync.k_schedule goes up to 4, and while one")));
}

TEST(CheckReportTest, TheEvaluatorHoldsOneStageOfAModelAtATime) {
  const std::string wide =
      "model={ loss: MEAN_SQUARED_ERROR layer { dense { units: 8192 } } "
      "layer { dense { units: 8192 } } layer { dense { units: 8192 } } "
      "layer { dense { units: 1 } } }";
  const int64_t stage = 8192 * (8192 + 1) * sizeof(float);
  const CheckReport whole = Report({wide});
  EXPECT_GT(whole.evaluator_bytes, 2 * stage);
  const CheckReport split =
      Report({wide, "worker.group={ pipeline_stages: 3 }"});
  EXPECT_GT(split.evaluator_bytes, stage);
  EXPECT_LT(split.evaluator_bytes, 2 * stage);
  EXPECT_EQ(Report({"evaluation.enabled=false"}).evaluator_bytes, 0);
}

TEST(PrintCheckTest, JsonHasTheNamesThatOthersRelyOn) {
  const ResolvedJob job = Resolve();
  std::ostringstream out;
  PrintCheck(job, /*profile=*/nullptr, /*json=*/true, out);
  const auto json = nlohmann::json::parse(out.str());
  EXPECT_EQ(json["fingerprint"], job.fingerprint);
  EXPECT_EQ(json["job"]["sync"]["policy"], "K_SYNC");
  EXPECT_EQ(json["job"]["sync"]["gradients_per_update"], 4);
  EXPECT_EQ(json["data"]["train_samples"], 1000);
  EXPECT_EQ(json["data"]["batches_per_epoch"], 10);
  EXPECT_EQ(json["weights"], 353);
  ASSERT_EQ(json["tensors"].size(), 4);
  EXPECT_EQ(json["tensors"][2]["name"], "b.weight");
  EXPECT_EQ(json["tensors"][2]["shape"], (std::vector<int>{1, 16}));
  EXPECT_EQ(json["tensors"][2]["offset"], 336);
  EXPECT_EQ(json["tensors"][2]["size"], 16);
  EXPECT_EQ(json["tensors"][2]["shards"], (std::vector<int>{1}));
  EXPECT_EQ(json["tensors"][2]["weight_decay_factor"], 1);
  EXPECT_EQ(json["tensors"][3]["weight_decay_factor"], 0);
  EXPECT_EQ(json["tensors"][3]["learning_rate_factor"], 1);
  EXPECT_EQ(json["shards"][1]["end"], 353);
  EXPECT_EQ(json["shards"][0]["memory_bytes"]["total"], 176 * 4 * 9);
  EXPECT_EQ(json["worker"]["memory_bytes"]["gradient"], 1412);
  EXPECT_EQ(json["update"]["updates_per_epoch"], 5);
  EXPECT_EQ(json["update"]["pull_bytes"], 4 * 1412);
  EXPECT_EQ(json["learning_rate"]["after_warmup"], 0.1);
  EXPECT_EQ(json["expected_staleness"], 0);
  EXPECT_TRUE(json["warnings"].empty());
}

TEST(PrintCheckTest, RunningStatisticsAreNamed) {
  std::string text(kJob);
  text.replace(text.find("layer { tanh {} }"), 0, "layer { batch_norm {} } ");
  const auto job = ParseJob(text, "job", {});
  ASSERT_TRUE(job.ok()) << job.status();
  std::ostringstream out, json_out;
  PrintCheck(*job, /*profile=*/nullptr, /*json=*/false, out);
  EXPECT_THAT(out.str(), ContainsRegex("batch_norm1.beta .* trained  +[0-9]"));
  EXPECT_THAT(out.str(), ContainsRegex("batch_norm1.running_variance .* "
                                       "running statistic  [0-9]"));
  PrintCheck(*job, /*profile=*/nullptr, /*json=*/true, json_out);
  const auto json = nlohmann::json::parse(json_out.str());
  EXPECT_EQ(json["tensors"][3]["statistic"], false);
  EXPECT_EQ(json["tensors"][4]["name"], "batch_norm1.running_mean");
  EXPECT_EQ(json["tensors"][4]["statistic"], true);
}

TEST(PrintCheckTest, TextSaysWhereTheFirstWeightsComeFrom) {
  const auto text = [](const std::vector<std::string>& overrides) {
    std::ostringstream out;
    PrintCheck(Resolve(overrides), /*profile=*/nullptr, /*json=*/false, out);
    return out.str();
  };
  EXPECT_THAT(text({"seed=7"}),
              HasSubstr("353 weights, 1.4 KiB, at version 0 from the layers' "
                        "initializers with seed 7\n"));
  EXPECT_THAT(text({"model.init_from=a.safetensors"}),
              HasSubstr("at version 0 from a.safetensors\n"));
}

TEST(PrintCheckTest, TextBeginsWithAJobThatCanBeReadAgain) {
  const ResolvedJob job = Resolve();
  std::ostringstream out;
  PrintCheck(job, /*profile=*/nullptr, /*json=*/false, out);
  const std::string text = out.str();
  EXPECT_EQ(text.rfind(FormatJob(job.job), 0), 0);
  for (const char* part :
       {"tensor    shape", "b.weight  (1, 16)", "353 weights, 1.4 KiB",
        "shard 1    [176, 353)", "10 mini-batches of 100, 5.0 updates",
        "2 gradients under K_SYNC by 4 workers", "0.1 at the first update"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
}

}  // namespace
}  // namespace sluice

#include "ps_server/coordinator/core/coordinator_options_from_job.h"

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// A job of 1000 samples with these fields, as if it had been resolved.
ResolvedJob Job(const std::string& text) {
  ParameterLayout layout({}, 1);
  ResolvedJob resolved{{}, {}, {}, layout, ""};
  EXPECT_TRUE(
      google::protobuf::TextFormat::ParseFromString(text, &resolved.job));
  if (resolved.job.sync().policy() == proto::POLICY_UNSPECIFIED) {
    resolved.job.mutable_sync()->set_policy(proto::SYNC);
  }
  resolved.data.train_samples = 1000;
  return resolved;
}

TEST(CoordinatorOptionsFromJobTest, EpochsBecomeSamples) {
  const CoordinatorOptions options = CoordinatorOptionsFromJob(
      Job("schedule { cosine { epochs: 5 final_factor: 0.1 } "
          "warmup_epochs: 0.5 linear_scaling: true } "
          "evaluation { every_epochs: 2 enabled: true } "
          "optimizer { learning_rate: 0.25 }"),
      7);
  EXPECT_EQ(options.learning_rate.base, 0.25);
  EXPECT_EQ(options.learning_rate.kind, LearningRateOptions::Kind::kCosine);
  EXPECT_EQ(options.learning_rate.cosine_samples, 5000);
  EXPECT_EQ(options.learning_rate.cosine_final, 0.1);
  EXPECT_EQ(options.learning_rate.warmup_samples, 500);
  EXPECT_TRUE(options.learning_rate.linear_scaling);
  EXPECT_EQ(options.evaluate_every_samples, 2000);
  EXPECT_TRUE(options.evaluator);
  EXPECT_EQ(options.grant_secret, 7);
}

TEST(CoordinatorOptionsFromJobTest, OthersMayJoinOnlyWhereTheJobSaysSo) {
  const auto options = [](const std::string& text) {
    return CoordinatorOptionsFromJob(Job(text), 7);
  };
  EXPECT_EQ(options("cluster { workers: 2 }").max_workers, 0);
  EXPECT_EQ(options("cluster { workers: 2 max_workers: 8 }").max_workers, 8);
}

TEST(CoordinatorOptionsFromJobTest, CheckpointsAreTakenWhereThereAreSome) {
  EXPECT_FALSE(CoordinatorOptionsFromJob(Job(""), 0).checkpoints.enabled());
  const CheckpointOptions checkpoints =
      CoordinatorOptionsFromJob(
          Job("checkpoint { every_updates: 7 every_s: 2.5 keep: 3 }"), 0)
          .checkpoints;
  EXPECT_EQ(checkpoints.every_updates, 7);
  EXPECT_EQ(checkpoints.every, absl::Seconds(2.5));
  EXPECT_EQ(checkpoints.keep, 3);
}

TEST(CoordinatorOptionsFromJobTest, ThePolicyAndWhatIsAroundItAreTaken) {
  const CoordinatorOptions options = CoordinatorOptionsFromJob(
      Job("cluster { workers: 4 shards: 2 } "
          "sync { policy: K_BATCH_ASYNC k: 3 local_steps: 2 "
          "staleness { bound: 5 action: DOWNWEIGHT } on_shortage: SHRINK "
          "shortage_timeout_s: 9 on_bad_gradient: SKIP } "
          "limits { staged_gradients: 8 commit_window: 6 lease_s: 2.5 }"),
      0);
  EXPECT_EQ(options.workers, 4);
  EXPECT_EQ(options.shards, 2);
  EXPECT_EQ(options.sync.policy, PolicyKind::kKBatchAsync);
  EXPECT_EQ(options.sync.k, 3);
  EXPECT_EQ(options.sync.local_steps, 2);
  ASSERT_TRUE(options.sync.staleness.has_value());
  EXPECT_EQ(options.sync.staleness->bound, 5);
  EXPECT_EQ(options.sync.staleness->action, StalenessAction::kDownweight);
  EXPECT_EQ(options.sync.on_shortage, OnShortage::kShrink);
  EXPECT_EQ(options.sync.shortage_timeout, absl::Seconds(9));
  EXPECT_EQ(options.sync.on_bad_gradient, OnBadGradient::kSkip);
  EXPECT_EQ(options.staged_gradients, 8);
  EXPECT_EQ(options.commit_window, 6);
  EXPECT_EQ(options.lease, absl::Seconds(2.5));
}

TEST(CoordinatorOptionsFromJobTest, OnlyTheStopsThatAreSetCount) {
  const StopOptions stop =
      CoordinatorOptionsFromJob(Job("stop { updates: 10 seconds: 3 }"), 0).stop;
  EXPECT_EQ(stop.updates, 10);
  EXPECT_EQ(stop.time, absl::Seconds(3));
  EXPECT_FALSE(stop.epochs.has_value());
  EXPECT_FALSE(stop.target_accuracy.has_value());
}

TEST(CoordinatorOptionsFromJobTest, ThePlanForKIsTaken) {
  const auto schedule = [](const std::string& text) {
    return CoordinatorOptionsFromJob(
               Job("sync { policy: K_SYNC " + text + " }"), 0)
        .sync.k_schedule;
  };
  EXPECT_TRUE(std::holds_alternative<FixedK>(schedule("k: 2")));
  const auto by_version = std::get<KByVersion>(
      schedule("k_schedule { by_version { change { from_version: 3 k: 2 } "
               "change { from_version: 9 k: 4 } } }"));
  ASSERT_EQ(by_version.changes.size(), 2);
  EXPECT_EQ(by_version.changes[1].from_version, 9);
  EXPECT_EQ(by_version.changes[1].k, 4);
  const auto adaptive = std::get<AdaptiveK>(
      schedule("k_schedule { adaptive { max_k: 7 smoothing_updates: 5 } }"));
  EXPECT_EQ(adaptive.max_k, 7);
  EXPECT_EQ(adaptive.smoothing_updates, 5);
}

TEST(CoordinatorOptionsFromJobTest, WithoutABoundThereIsNone) {
  EXPECT_FALSE(
      CoordinatorOptionsFromJob(Job(""), 0).sync.staleness.has_value());
}

}  // namespace
}  // namespace sluice

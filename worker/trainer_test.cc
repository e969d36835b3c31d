#include "worker/trainer.h"

#include "absl/strings/str_cat.h"
#include "common/key_proto.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/compute/native_gradient.h"
#include "worker/testing/fakes.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr GradientKey kKey{Generation(1), WorkerId(3), Incarnation(2),
                           Sequence(17)};

// Ten samples in order, mini-batches of four: the third has two.
class TrainerTest : public ::testing::Test {
 protected:
  TrainerTest() { exchange_.weights = {1, 2, 3, 4}; }

  static Trainer::Options Options(Clock* clock) {
    Trainer::Options options;
    options.clock = clock;
    return options;
  }
  static NativeGradient::Options GradientOptions() {
    NativeGradient::Options options;
    options.sampling = {.seed = 1,
                        .train_samples = 10,
                        .batch_size = 4,
                        .shuffle = false,
                        .partitions = 1};
    options.parameters = 4;
    return options;
  }
  static proto::Task TaskOf(int64_t batch, int64_t version) {
    proto::Task task;
    *task.mutable_key() = KeyToProto(kKey);
    task.set_grant("a grant");
    task.set_first_batch(batch);
    task.set_batches(1);
    task.set_version(version);
    task.set_exact(true);
    return task;
  }
  absl::StatusOr<proto::Ready> RunReady(const proto::Task& task) {
    const auto answer = trainer_.Run(task, token_);
    if (!answer.ok()) return answer.status();
    if (!std::holds_alternative<proto::Ready>(*answer)) {
      return absl::InternalError("rejected");
    }
    return std::get<proto::Ready>(*answer);
  }

  FakeClock clock_;
  FakeDataSource data_{10};
  FakeModel model_;
  FakeExchange exchange_;
  CancelToken token_;
  NativeGradient gradient_{GradientOptions(), &data_, model_.get()};
  Trainer trainer_{Options(&clock_), &gradient_, &exchange_};
};

TEST_F(TrainerTest, ATaskPullsComputesPushesAndIsReady) {
  const auto ready = RunReady(TaskOf(/*batch=*/1, /*version=*/5));
  ASSERT_TRUE(ready.ok()) << ready.status();
  ASSERT_TRUE(exchange_.pulled.has_value());
  EXPECT_EQ(exchange_.pulled->version, Version(5));
  EXPECT_EQ(exchange_.pulled->generation, Generation(1));
  EXPECT_TRUE(exchange_.pulled->exact);
  // Samples 4 to 7 have the mean 5.5.
  EXPECT_THAT(exchange_.pushed, ElementsAre(6.5, 7.5, 8.5, 9.5));
  EXPECT_EQ(exchange_.push_key, kKey);
  EXPECT_EQ(exchange_.push_grant, "a grant");
  EXPECT_EQ(KeyFromProto(ready->key()), kKey);
  EXPECT_THAT(ready->shard_base(), ElementsAre(5, 6));
  EXPECT_EQ(ready->samples(), 4);
  EXPECT_EQ(ready->loss(), 5.5);
}

TEST_F(TrainerTest, AnEpochsLastMiniBatchMayBeShort) {
  const auto ready = RunReady(TaskOf(/*batch=*/2, /*version=*/5));
  ASSERT_TRUE(ready.ok());
  EXPECT_EQ(ready->samples(), 2);
  EXPECT_EQ(ready->loss(), 8.5);
}

TEST_F(TrainerTest, TheGradientIsOfferedWhileBackwardRuns) {
  std::vector<int64_t> offered;
  model_->on_backward = [&] { offered = exchange_.offers; };
  ASSERT_TRUE(RunReady(TaskOf(0, 5)).ok());
  EXPECT_THAT(offered, ElementsAre(2));
  EXPECT_THAT(exchange_.offers, ElementsAre(2, 0));
}

TEST_F(TrainerTest, TheTimeOfEachStageIsTold) {
  exchange_.on_pull = [&] { clock_.Advance(absl::Seconds(1)); };
  model_->on_forward = [&] { clock_.Advance(absl::Seconds(2)); };
  model_->on_backward = [&] { clock_.Advance(absl::Seconds(4)); };
  const auto ready = RunReady(TaskOf(0, 5));
  ASSERT_TRUE(ready.ok());
  EXPECT_EQ(ready->pull_seconds(), 1);
  EXPECT_EQ(ready->compute_seconds(), 6);
  EXPECT_EQ(ready->push_seconds(), 0);
}

// A trainer whose one shard is in the coordinator's process.
class OneShardTest : public TrainerTest {
 protected:
  OneShardTest() { exchange_.lead = true; }
};

TEST_F(OneShardTest, TheAnswerTravelsWithTheFirstFloats) {
  std::vector<int64_t> offered;
  model_->on_backward = [&] { offered = exchange_.offers; };
  const auto ready = RunReady(TaskOf(/*batch=*/1, /*version=*/5));
  ASSERT_TRUE(ready.ok()) << ready.status();
  EXPECT_TRUE(trainer_.told());
  EXPECT_THAT(offered, ElementsAre(2));
  EXPECT_THAT(exchange_.offers, ElementsAre(2, 0));
  ASSERT_TRUE(exchange_.brought.has_value());
  EXPECT_EQ(KeyFromProto(exchange_.brought->key()), kKey);
  EXPECT_THAT(exchange_.brought->shard_base(), ElementsAre(5, 6));
  EXPECT_EQ(exchange_.brought->samples(), 4);
  EXPECT_EQ(exchange_.brought->loss(), 5.5);
}

TEST_F(OneShardTest, ItSaysHowLongThePushBeforeTook) {
  exchange_.on_pull = [&] { clock_.Advance(absl::Seconds(1)); };
  model_->on_forward = [&] { clock_.Advance(absl::Seconds(2)); };
  exchange_.on_finish_push = [&] { clock_.Advance(absl::Seconds(8)); };
  ASSERT_TRUE(RunReady(TaskOf(0, 5)).ok());
  EXPECT_EQ(exchange_.brought->pull_seconds(), 1);
  EXPECT_EQ(exchange_.brought->compute_seconds(), 2);
  EXPECT_EQ(exchange_.brought->push_seconds(), 0);
  ASSERT_TRUE(RunReady(TaskOf(1, 6)).ok());
  EXPECT_EQ(exchange_.brought->push_seconds(), 8);
}

TEST_F(OneShardTest, TheNextSamplesAreReadWhileTheShardStages) {
  for (const int64_t batch : {0, 1}) {
    ASSERT_TRUE(RunReady(TaskOf(batch, 5 + batch)).ok());
  }
  EXPECT_EQ(data_.gathered, 3);  // 0, 1, and 2 is guessed: 1 followed 0.
  ASSERT_TRUE(RunReady(TaskOf(2, 7)).ok());
  EXPECT_EQ(data_.gathered, 4);
}

TEST_F(OneShardTest, ARefusedGradientIsRejectedOnTheSession) {
  exchange_.push_status = absl::InvalidArgumentError("dense0.bias is inf");
  const auto answer = trainer_.Run(TaskOf(0, 5), token_);
  ASSERT_TRUE(answer.ok());
  EXPECT_TRUE(std::holds_alternative<proto::Rejected>(*answer));
}

TEST_F(TrainerTest, TheNextVersionIsAskedForWhileThisOneIsComputed) {
  std::vector<PullSpec> asked;
  model_->on_forward = [&] { asked = exchange_.prefetched; };
  ASSERT_TRUE(RunReady(TaskOf(0, /*version=*/5)).ok());
  ASSERT_THAT(asked, SizeIs(1));
  EXPECT_EQ(asked[0].version, Version(6));
  EXPECT_TRUE(asked[0].exact);
}

TEST_F(TrainerTest, WhatIsAskedForAheadGoesToMemoryOfItsOwn) {
  ASSERT_TRUE(RunReady(TaskOf(0, 5)).ok());
  const float* const first = exchange_.pulled_into;
  const float* const ahead = exchange_.prefetched_into;
  EXPECT_NE(first, ahead);
  // It is pulled to where it was asked for, and the one after it elsewhere.
  ASSERT_TRUE(RunReady(TaskOf(1, 6)).ok());
  EXPECT_EQ(exchange_.pulled_into, ahead);
  EXPECT_EQ(exchange_.prefetched_into, first);
}

// A NativeGradient whose weights are looked at until the next task.
class KeepingGradient final : public TaskGradient {
 public:
  explicit KeepingGradient(TaskGradient* gradient) : gradient_(*gradient) {}

  absl::Span<float> Weights(int which) override {
    return gradient_.Weights(which);
  }
  bool keeps_weights() const override { return true; }
  absl::Span<float> Gradient() override { return gradient_.Gradient(); }
  absl::StatusOr<OrRestarted<Model::Result>> Compute(
      const Batches& batches, WeightSource& weights, GradientSink& gradient,
      const CancelToken& cancel, TaskProgress* progress) override {
    return gradient_.Compute(batches, weights, gradient, cancel, progress);
  }

 private:
  TaskGradient& gradient_;
};

TEST_F(TrainerTest, WeightsThatAreKeptAreNotPulledOver) {
  KeepingGradient keeping(&gradient_);
  Trainer trainer(Options(&clock_), &keeping, &exchange_);
  for (const bool exact : {false, true, false}) {
    const float* before = nullptr;
    for (int i = 0; i < 3; ++i) {
      proto::Task task = TaskOf(i, 5 + i);
      task.set_exact(exact);
      ASSERT_TRUE(trainer.Run(task, token_).ok());
      EXPECT_NE(exchange_.pulled_into, before);
      before = exchange_.pulled_into;
    }
  }
}

TEST_F(TrainerTest, WhatIsAskedForAheadEndsBeforeItsMemoryDoes) {
  auto trainer =
      std::make_unique<Trainer>(Options(&clock_), &gradient_, &exchange_);
  ASSERT_TRUE(trainer->Run(TaskOf(0, 5), token_).ok());
  EXPECT_NE(exchange_.prefetched_into, nullptr);
  trainer.reset();
  EXPECT_EQ(exchange_.prefetched_into, nullptr);
}

TEST_F(TrainerTest, AnotherTaskOfTheSameVersionLeavesWhatWasAskedFor) {
  ASSERT_TRUE(RunReady(TaskOf(0, 5)).ok());
  const float* const first = exchange_.pulled_into;
  ASSERT_TRUE(RunReady(TaskOf(1, 5)).ok());
  EXPECT_THAT(exchange_.prefetched, SizeIs(1));
  EXPECT_EQ(exchange_.pulled_into, first);
}

TEST_F(TrainerTest, WhoGoesOnWithWhatThereIsAsksForNothingAhead) {
  proto::Task task = TaskOf(0, 5);
  task.set_exact(false);
  ASSERT_TRUE(RunReady(task).ok());
  EXPECT_THAT(exchange_.prefetched, IsEmpty());
}

class StragglerTest : public TrainerTest {
 protected:
  StragglerTest() {
    proto::Job job;
    job.set_seed(1);
    auto* compute = job.mutable_delays()->mutable_compute();
    compute->mutable_exponential()->set_mean_ms(50);
    delay_ = *ComputeDelay::Create(job);
  }
  Trainer Straggling(bool cancelled) {
    Trainer::Options options = Options(&clock_);
    options.delay = delay_;
    options.wait = [this, cancelled](absl::Duration time, const CancelToken&) {
      clock_.Advance(time);
      return cancelled;
    };
    return Trainer(options, &gradient_, &exchange_);
  }
  double Expected(int batches) const {
    return delay_.Draw(kKey.worker.value(), kKey.sequence.value(), batches);
  }

  ComputeDelay delay_;
};

TEST_F(StragglerTest, TheTasksDelayCountsAsComputing) {
  Trainer trainer = Straggling(/*cancelled=*/false);
  const auto answer = trainer.Run(TaskOf(0, 5), token_);
  ASSERT_TRUE(answer.ok());
  EXPECT_NEAR(std::get<proto::Ready>(*answer).compute_seconds(), Expected(1),
              1e-9);
  proto::Task two = TaskOf(0, 5);
  two.set_batches(2);
  ASSERT_TRUE(trainer.Run(two, token_).ok());
  EXPECT_NEAR(trainer.progress().compute_seconds(), Expected(2), 1e-9);
}

TEST_F(StragglerTest, TheDelayBeginsWhenAllWeightsAreThere) {
  exchange_.breaks = 1;
  Trainer::Options options = Options(&clock_);
  options.delay = delay_;
  std::vector<int64_t> awaited;
  options.wait = [&](absl::Duration, const CancelToken&) {
    awaited = exchange_.awaited;
    return false;
  };
  Trainer trainer(options, &gradient_, &exchange_);
  ASSERT_TRUE(trainer.Run(TaskOf(0, 5), token_).ok());
  EXPECT_THAT(awaited, ElementsAre(4, 4));
}

TEST_F(StragglerTest, ACancelWhileWeightsComeAnewEndsTheTask) {
  exchange_.breaks = 1;
  exchange_.on_break = [&] { token_.Cancel(); };
  Trainer trainer = Straggling(/*cancelled=*/false);
  EXPECT_TRUE(absl::IsAborted(trainer.Run(TaskOf(0, 5), token_).status()));
  EXPECT_EQ(exchange_.pulls_under_way, 0);
}

TEST_F(StragglerTest, ACancelEndsTheDelayAndNothingIsComputed) {
  Trainer trainer = Straggling(/*cancelled=*/true);
  EXPECT_TRUE(absl::IsAborted(trainer.Run(TaskOf(0, 5), token_).status()));
  EXPECT_EQ(trainer.progress().stage(), Stage::kForward);
  EXPECT_FALSE(exchange_.push_key.has_value());
}

TEST_F(TrainerTest, ACancelDuringThePullComputesNothing) {
  exchange_.on_pull = [&] { token_.Cancel(); };
  EXPECT_TRUE(absl::IsAborted(RunReady(TaskOf(0, 5)).status()));
  EXPECT_EQ(trainer_.progress().stage(), Stage::kPull);
  EXPECT_EQ(exchange_.pulls_under_way, 0);
  EXPECT_EQ(exchange_.aborted_pushes, 1);
  EXPECT_THAT(exchange_.offers, IsEmpty());
}

TEST_F(TrainerTest, ForwardBeginsWithTheWeightsThatAreThere) {
  std::vector<int64_t> awaited;
  int pulls = 0;
  model_->on_half = [&] {
    awaited = exchange_.awaited;
    pulls = exchange_.pulls_under_way;
  };
  ASSERT_TRUE(RunReady(TaskOf(0, 5)).ok());
  EXPECT_THAT(awaited, ElementsAre(2));
  EXPECT_EQ(pulls, 1);
  EXPECT_THAT(exchange_.awaited, ElementsAre(2, 4));
  EXPECT_EQ(exchange_.pulls_under_way, 0);
}

TEST_F(TrainerTest, NothingIsAskedForAheadBeforeAllWeightsAreThere) {
  std::vector<PullSpec> asked;
  model_->on_half = [&] { asked = exchange_.prefetched; };
  ASSERT_TRUE(RunReady(TaskOf(0, 5)).ok());
  EXPECT_THAT(asked, IsEmpty());
  EXPECT_THAT(exchange_.prefetched, SizeIs(1));
}

TEST_F(TrainerTest, OnlyTheTimeForwardWaitsForWeightsIsThatOfThePull) {
  exchange_.on_pull = [&] { clock_.Advance(absl::Seconds(1)); };
  model_->on_half = [&] { clock_.Advance(absl::Seconds(2)); };
  const auto ready = RunReady(TaskOf(0, 5));
  ASSERT_TRUE(ready.ok());
  EXPECT_EQ(ready->pull_seconds(), 1);
  EXPECT_EQ(ready->compute_seconds(), 2);
}

TEST_F(TrainerTest, ForwardIsAStageOnceItHasWeights) {
  exchange_.on_pull = [&] { clock_.Advance(absl::Seconds(1)); };
  model_->on_half = [&] { clock_.Advance(absl::Seconds(1)); };
  ASSERT_TRUE(RunReady(TaskOf(0, 5)).ok());
  std::vector<Stage> stages;
  for (const auto& span : trainer_.progress().spans()) {
    stages.push_back(span.stage);
  }
  EXPECT_THAT(stages,
              ElementsAre(Stage::kPull, Stage::kForward, Stage::kPull,
                          Stage::kForward, Stage::kBackward, Stage::kPush));
}

TEST_F(TrainerTest, WhatTravelledIsTold) {
  ASSERT_TRUE(RunReady(TaskOf(0, 5)).ok());
  EXPECT_THAT(trainer_.progress().travels(), IsEmpty());  // It is not known.
  exchange_.travels = {{clock_.Now(), clock_.Now() + absl::Seconds(1)}};
  ASSERT_TRUE(RunReady(TaskOf(0, 5)).ok());
  const auto& travels = trainer_.progress().travels();
  ASSERT_THAT(travels, SizeIs(2));
  EXPECT_EQ(travels[0].transfer, Transfer::kPull);
  EXPECT_EQ(travels[1].transfer, Transfer::kPush);
  EXPECT_EQ(travels[1].end, clock_.Now() + absl::Seconds(1));
}

TEST_F(TrainerTest, WhatWasComputedFromWeightsThatComeAnewIsComputedAgain) {
  for (const int batches : {1, 2}) {
    proto::Task task = TaskOf(0, 5);
    task.set_batches(batches);
    task.set_local_learning_rate(0.5);
    ASSERT_TRUE(RunReady(task).ok());
    const std::vector<float> expected = std::move(exchange_.pushed);
    exchange_.awaited.clear();
    exchange_.breaks = 1;
    // The first time the first shard's weights are wrong as well.
    model_->on_half = [&] {
      if (exchange_.breaks == 1) exchange_.pulled_into[0] = 1e6f;
    };
    ASSERT_TRUE(RunReady(task).ok());
    EXPECT_THAT(exchange_.awaited, ElementsAre(2, 4, 2, 4));
    EXPECT_EQ(exchange_.pushed, expected);
    model_->on_half = nullptr;
  }
}

TEST_F(TrainerTest, ACancelDuringForwardPushesNothing) {
  model_->on_forward = [&] { token_.Cancel(); };
  EXPECT_TRUE(absl::IsAborted(RunReady(TaskOf(0, 5)).status()));
  EXPECT_EQ(trainer_.progress().stage(), Stage::kForward);
  EXPECT_THAT(exchange_.offers, IsEmpty());
  EXPECT_EQ(exchange_.aborted_pushes, 1);
}

TEST_F(TrainerTest, ACancelDuringBackwardStopsThePush) {
  model_->on_backward = [&] { token_.Cancel(); };
  EXPECT_TRUE(absl::IsAborted(RunReady(TaskOf(0, 5)).status()));
  EXPECT_EQ(trainer_.progress().stage(), Stage::kBackward);
  EXPECT_EQ(exchange_.aborted_pushes, 1);
  EXPECT_THAT(exchange_.pushed, IsEmpty());
}

TEST_F(TrainerTest, NothingOfACancelledTaskIsInTheNextOne) {
  ASSERT_TRUE(RunReady(TaskOf(1, 5)).ok());
  const std::vector<float> expected = exchange_.pushed;
  model_->on_backward = [&] { token_.Cancel(); };
  EXPECT_FALSE(RunReady(TaskOf(2, 6)).ok());
  model_->on_backward = nullptr;
  token_.Reset();
  ASSERT_TRUE(RunReady(TaskOf(1, 5)).ok());
  EXPECT_EQ(exchange_.pushed, expected);
}

TEST_F(TrainerTest, AVersionThatIsGoneEndsTheTask) {
  exchange_.pull_status = absl::AbortedError("shard 1: version 5 is gone");
  EXPECT_EQ(RunReady(TaskOf(0, 5)).status(), exchange_.pull_status);
}

TEST_F(TrainerTest, ARefusedGradientIsRejectedInTheShardsWords) {
  exchange_.push_status =
      absl::InvalidArgumentError("shard 1: dense0.weight is nan");
  const auto answer = trainer_.Run(TaskOf(0, 5), token_);
  ASSERT_TRUE(answer.ok());
  ASSERT_TRUE(std::holds_alternative<proto::Rejected>(*answer));
  const auto& rejected = std::get<proto::Rejected>(*answer);
  EXPECT_EQ(rejected.reason(), "shard 1: dense0.weight is nan");
  EXPECT_EQ(KeyFromProto(rejected.key()), kKey);
}

TEST_F(TrainerTest, ATaskWithoutMiniBatchesIsRefused) {
  for (const int batches : {0, -1}) {
    proto::Task task = TaskOf(0, 5);
    task.set_batches(batches);
    EXPECT_EQ(
        RunReady(task).status(),
        absl::InvalidArgumentError(absl::StrCat(
            "a task has ", batches, " mini-batches, expected 1 or more")));
  }
  EXPECT_FALSE(exchange_.pulled.has_value());
}

TEST_F(TrainerTest, LocalStepsPushTheSumOfTheirGradients) {
  proto::Task task = TaskOf(/*batch=*/0, /*version=*/5);
  task.set_batches(2);
  task.set_local_learning_rate(0.5);
  const auto ready = RunReady(task);
  ASSERT_TRUE(ready.ok());
  // First step: mean 1.5, g = (2.5, 3.5, 4.5, 5.5), w <- (-.25, .25, .75,
  // 1.25). Second step: mean 5.5, g = (5.25, 5.75, 6.25, 6.75).
  EXPECT_THAT(exchange_.pushed, ElementsAre(7.75, 9.25, 10.75, 12.25));
  EXPECT_EQ(ready->samples(), 8);
  EXPECT_EQ(ready->loss(), 3.5);
}

TEST_F(TrainerTest, LocalStepsLeaveStatisticsAloneAndPushTheirMean) {
  const FakeModel model(LayoutOfFour(/*has_statistic=*/true));
  NativeGradient gradient(GradientOptions(), &data_, model.get());
  Trainer trainer(Options(&clock_), &gradient, &exchange_);
  proto::Task task = TaskOf(/*batch=*/0, /*version=*/5);
  task.set_batches(2);
  task.set_local_learning_rate(0.5);
  ASSERT_TRUE(trainer.Run(task, token_).ok());
  // As above, but for the second weight: g = 3.5 and, as it stays 2, 7.5.
  EXPECT_THAT(exchange_.pushed, ElementsAre(7.75, 5.5, 10.75, 12.25));
}

}  // namespace
}  // namespace sluice

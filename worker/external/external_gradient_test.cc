#include "worker/external/external_gradient.h"

#include "common/job/resolved_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/testing/watched_flow.h"

namespace sluice {
namespace {

using testing::ElementsAre;

// 10 samples in mini-batches of 4: the third of an epoch has two.
constexpr char kJob[] = R"(
data { external { train_samples: 10 } batch_size: 4 shuffle: false }
sync { local_steps: 3 }
model {
  external {
    tensor { name: "w" shape: 3 kind: WEIGHT }
    tensor { name: "b" shape: 1 kind: BIAS }
  }
  init_from: "unread"
}
evaluation { enabled: false }
stop { updates: 5 }
)";

TEST(DescriptionOfTest, UnderStaticShardingEachWorkerHasAPartition) {
  const auto partitions = [](const std::string& sharding) {
    const auto job = ParseJob(
        kJob, "job", {"sync.local_steps=1", "cluster.workers=3", sharding});
    EXPECT_TRUE(job.ok()) << job.status().message().data();
    return DescriptionOf(*job, WorkerId(0)).partitions;
  };
  EXPECT_EQ(partitions("data.sharding=DYNAMIC"), 1);
  EXPECT_EQ(partitions("data.sharding=STATIC"), 3);
}

class ExternalGradientTest : public testing::Test {
 protected:
  // REQUIRES: it becomes ready.
  void Start(const std::vector<std::string>& command) {
    auto job = ParseJob(kJob, "job", {});
    ASSERT_TRUE(job.ok()) << job.status().message().data();
    auto started = ExternalGradient::Start(
        *job,
        {.seed = 1, .train_samples = 10, .batch_size = 4, .shuffle = false},
        WorkerId(3), command);
    ASSERT_TRUE(started.ok()) << started.status().message().data();
    gradient_ = *std::move(started);
  }
  void StartLinear() { Start({"worker/external/testing/linear_model"}); }

  absl::StatusOr<OrRestarted<Model::Result>> Compute(
      const TaskGradient::Batches& batches, const Watch& watch = {}) {
    WatchedWeights weights(gradient_->Weights(0), watch);
    WatchedGradient into(gradient_->Gradient(), watch);
    return gradient_->Compute(batches, weights, into, cancel_, &progress_);
  }
  int64_t SamplesOf(const TaskGradient::Batches& batches) {
    const auto computed = Compute(batches);
    EXPECT_TRUE(computed.ok()) << computed.status().message().data();
    return std::get<Model::Result>(*computed).samples;
  }
  // What faulty_model tell-next says.
  double NextAfter(const TaskGradient::Batches& batches) {
    const auto computed = Compute(batches);
    EXPECT_TRUE(computed.ok()) << computed.status().message().data();
    return std::get<Model::Result>(*computed).loss;
  }

  std::unique_ptr<ExternalGradient> gradient_;
  CancelToken cancel_;
  TaskProgress progress_;
};

TEST_F(ExternalGradientTest, AMiniBatchHasTheSamplesOfTheSchedule) {
  StartLinear();
  EXPECT_EQ(SamplesOf({.first = BatchId(1)}), 4);
  EXPECT_EQ(SamplesOf({.first = BatchId(2)}), 2);
  EXPECT_EQ(SamplesOf({.first = BatchId(1), .count = 3, .rate = 0.1f}),
            4 + 2 + 4);
}

TEST_F(ExternalGradientTest, WorkersOfOneSpeedTakeTurns) {
  Start({"worker/external/testing/faulty_model", "tell-next"});
  EXPECT_EQ(NextAfter({.first = BatchId(0)}), 3);
  EXPECT_EQ(NextAfter({.first = BatchId(4)}), 7);
  EXPECT_EQ(NextAfter({.first = BatchId(6)}), 9);
  EXPECT_EQ(NextAfter({.first = BatchId(12), .count = 2}), 16);
}

TEST_F(ExternalGradientTest, AFastWorkerIsLikelyToGetTheNextMiniBatchToo) {
  Start({"worker/external/testing/faulty_model", "tell-next"});
  for (int64_t i = 0; i < 20; ++i) NextAfter({.first = BatchId(i)});
  EXPECT_EQ(NextAfter({.first = BatchId(20)}), 21);
  // One that another worker gave back does not count.
  NextAfter({.first = BatchId(2)});
  EXPECT_EQ(NextAfter({.first = BatchId(3)}), 4);
}

TEST_F(ExternalGradientTest, NothingIsComputedBeforeAllWeightsAreThere) {
  StartLinear();
  std::vector<int64_t> awaited;
  const auto computed =
      Compute({.first = BatchId(0)}, {.wait = [&](int64_t end) {
                awaited.push_back(end);
                return absl::StatusOr<OrRestarted<int64_t>>(Restarted{});
              }});
  ASSERT_TRUE(computed.ok());
  EXPECT_TRUE(IsRestarted(*computed));
  EXPECT_THAT(awaited, ElementsAre(4));
}

TEST_F(ExternalGradientTest, PartsLeaveAsTheyBecomeFinal) {
  StartLinear();
  std::vector<int64_t> finals;
  ASSERT_TRUE(
      Compute({.first = BatchId(0)},
              {.on_final = [&](int64_t from) { finals.push_back(from); }})
          .ok());
  EXPECT_THAT(finals, ElementsAre(3, 0));
  EXPECT_EQ(progress_.stage(), Stage::kBackward);
}

TEST_F(ExternalGradientTest, WeightsAreTwiceAndTheGradientOnce) {
  StartLinear();
  EXPECT_EQ(gradient_->Weights(0).size(), 4);
  EXPECT_NE(gradient_->Weights(0).data(), gradient_->Weights(1).data());
  EXPECT_EQ(gradient_->Weights(1).data(), gradient_->Weights(1).data());
  EXPECT_EQ(gradient_->Gradient().size(), 4);
}

TEST_F(ExternalGradientTest, OneWhoseProcessEndedIsBroken) {
  Start({"worker/external/testing/faulty_model", "exit-in-task"});
  EXPECT_FALSE(gradient_->broken());
  EXPECT_FALSE(Compute({.first = BatchId(0)}).ok());
  EXPECT_TRUE(gradient_->broken());
}

TEST_F(ExternalGradientTest, OneWhoseTaskWasCancelledIsNot) {
  Start({"worker/external/testing/faulty_model", "wait"});
  EXPECT_TRUE(absl::IsAborted(
      Compute({.first = BatchId(0)},
              {.on_final = [this](int64_t) { cancel_.Cancel(); }})
          .status()));
  EXPECT_FALSE(gradient_->broken());
}

}  // namespace
}  // namespace sluice

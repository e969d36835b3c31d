#include "sim/theory/pipeline_time.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;

using Stages = std::vector<PipelineTime::Stage>;

constexpr double kNear = 1e-9;

// A third of it is forward.
PipelineTime::Stage Stage(double share, double sending = 0) {
  return {.forward = share / 3, .backward = 2 * share / 3, .sending = sending};
}

TEST(PipelineTimeTest, OneProcessTakesItsTimeWithoutABubble) {
  const TaskUse use = PipelineTime().Task(6, 2);
  EXPECT_EQ(use.seconds, 6);
  EXPECT_THAT(use.computing, ElementsAre(6));
  EXPECT_EQ(use.Bubble(), 0);
}

// Narayanan et al. 2021, section 2.2.1: m passes of equal stages take m + S - 1
// times what one takes.
TEST(PipelineTimeTest, EqualStagesFillAndRunEmptyOnceAMiniBatch) {
  for (const int stages : {2, 3, 5}) {
    for (const int passes : {1, 2, 8, 32}) {
      const PipelineTime pipeline(Stages(stages, Stage(1.0 / stages)), passes,
                                  0);
      const double one = 12.0 / stages / passes;
      const TaskUse use = pipeline.Task(12);
      EXPECT_NEAR(use.seconds, (passes + stages - 1) * one, kNear)
          << stages << " stages, " << passes << " passes";
      EXPECT_NEAR(use.Bubble(), (stages - 1.0) / (passes + stages - 1), kNear);
    }
  }
}

TEST(PipelineTimeTest, EachMiniBatchOfATaskIsFlushed) {
  const PipelineTime pipeline(Stages(2, Stage(0.5)), 2, 0);
  EXPECT_NEAR(pipeline.Task(12, 3).seconds, 3 * pipeline.Task(4).seconds,
              kNear);
}

TEST(PipelineTimeTest, TheLargestStageDecides) {
  // The second stage's 0.75 s of a pass go by while the first is busy with the
  // pass before it.
  const PipelineTime pipeline({Stage(0.75), Stage(0.25)}, 4, 0);
  const TaskUse use = pipeline.Task(12);
  EXPECT_THAT(use.computing, ElementsAre(9, 3));
  EXPECT_NEAR(use.seconds, 9, kNear);
  EXPECT_NEAR(use.Bubble(), 1 - 12.0 / 18, kNear);
}

// One pass of 3 s by two stages, 0.5 s and 1 s each; activations and their
// gradient take 2 s on the link and 0.25 s to arrive.
TEST(PipelineTimeTest, APassWaitsForTheLink) {
  const PipelineTime pipeline({Stage(0.5, 2), Stage(0.5)}, 1, 0.25);
  EXPECT_NEAR(pipeline.Task(3).seconds, 3 + 2 * 2.25, kNear);
}

TEST(PipelineTimeTest, ALinkSendsOneMicroBatchAfterTheOther) {
  // Sending is all that takes time: the third activations are there after 6 s,
  // and their gradient comes back behind the others'.
  const PipelineTime pipeline({Stage(0.5, 2), Stage(0.5)}, 3, 0);
  EXPECT_NEAR(pipeline.Task(1e-9).seconds, 3 * 2 + 2, 1e-6);
}

// Equal stages, passes of 1 s forward and 2 s backward, 1 s from one to the
// other. A member is far enough ahead (PassesAtOnce) that the second stage
// waits for its first input alone, and the first one for the last gradient.
TEST(PipelineTimeTest, LatencyIsWaitedForOnceEachWay) {
  const PipelineTime pipeline(Stages(2, Stage(0.5)), 4, 1);
  EXPECT_NEAR(pipeline.Task(24).seconds, (4 + 1) * 3 + 2, kNear);
}

// Equal stages, and enough tasks in hand: none of them ever waits.
TEST(PipelineTimeTest, SlotsFillTheBubble) {
  const PipelineTime alone(Stages(2, Stage(0.5)), 4, 0);
  const PipelineTime slots(Stages(2, Stage(0.5)), 4, 0, /*slots=*/3);
  EXPECT_NEAR(alone.Task(12).period, alone.Task(12).seconds, kNear);
  EXPECT_NEAR(alone.Task(12).Bubble(), 1.0 / 5, kNear);
  EXPECT_NEAR(slots.Task(12).Bubble(), 0, 0.01);
  EXPECT_NEAR(slots.Task(12).period, 6, 0.06);
  EXPECT_GT(slots.Task(12).seconds, alone.Task(12).seconds);
}

// Each slot's task fits exactly into what the other's leaves.
TEST(GroupScheduleTest, AGapOfExactlyAPassesLengthIsNotMissed) {
  const PipelineTime time(Stages(2, Stage(0.5)), 1, 0, /*slots=*/2);
  for (const double whole : {0.096, 0.1, 0.101, 0.12}) {
    EXPECT_NEAR(time.Task(whole).period, whole / 2, kNear);
    GroupSchedule group(&time);
    std::vector<int64_t> ends = {0, 0};  // In nanoseconds, as the simulator's.
    for (int task = 0; task < 1000; ++task) {
      const auto next = std::min_element(ends.begin(), ends.end());
      *next +=
          std::llround(1e9 * group.Begin(static_cast<int>(next - ends.begin()),
                                         *next * 1e-9, whole));
    }
    EXPECT_NEAR(ends[0] * 1e-9 / 500, whole, 0.005 * whole) << whole;
  }
}

// PipeDream's replicated stage: the first takes three times the second's, and
// has three processes.
TEST(PipelineTimeTest, ReplicasShareAStagesTasks) {
  std::vector<PipelineTime::Stage> stages = {Stage(0.75), Stage(0.25)};
  stages[0].replicas = 3;
  const TaskUse use = PipelineTime(stages, 1, 0, /*slots=*/6).Task(12);
  EXPECT_NEAR(use.period, 3, 0.1);
  EXPECT_THAT(use.computing, ElementsAre(3, 3, 3, 3));
}

TEST(PipelineTimeTest, TasksThatEndTwoAtATimeHaveTheirMeanPeriod) {
  std::vector<PipelineTime::Stage> stages = {Stage(1)};
  stages[0].replicas = 2;
  const TaskUse use = PipelineTime(stages, 1, 0, /*slots=*/4).Task(12);
  EXPECT_NEAR(use.period, 6, kNear);
}

// Slots 0 and 2 share a replica; slot 1 has the other, and is twice as fast.
TEST(PipelineTimeTest, ASlotThatSharesItsReplicaWithFewerMakesMoreTasks) {
  std::vector<PipelineTime::Stage> stages = {Stage(1)};
  stages[0].replicas = 2;
  const TaskUse use = PipelineTime(stages, 1, 0, /*slots=*/3).Task(12);
  EXPECT_NEAR(use.period, 6, 0.1);
  EXPECT_THAT(use.computing,
              ElementsAre(DoubleNear(6, 0.1), DoubleNear(6, 0.1)));
}

// One process, one micro-batch of 3 s.
TEST(GroupScheduleTest, WhatBeginsLaterTakesWhatIsLeft) {
  const PipelineTime time({Stage(1)}, 1, 0, /*slots=*/2);
  GroupSchedule group(&time);
  EXPECT_NEAR(group.Begin(0, 10, 3), 3, kNear);
  EXPECT_NEAR(group.Begin(1, 11, 3), 2 + 3, kNear);
  // The first one's end leaves 13 to 16 to the second.
  EXPECT_NEAR(group.Begin(0, 13, 3), 3 + 3, kNear);
}

TEST(GroupScheduleTest, ACancelledTaskLeavesItsTime) {
  const PipelineTime time({Stage(1)}, 2, 0, /*slots=*/2);
  GroupSchedule group(&time);
  group.Begin(0, 0, 6);
  // In the first backward pass, which is made to its end at 3 s.
  group.Cancel(0, 2);
  EXPECT_NEAR(group.Begin(1, 2, 6), 1 + 6, kNear);
}

TEST(PipelineTimeTest, AJobGivesStagesPassesAndLinks) {
  const auto job = ParseJob(R"pb(
                              data {
                                linear_regression { features: 10 }
                                batch_size: 20
                              }
                              model {
                                loss: MEAN_SQUARED_ERROR
                                layer { dense { units: 30 } }
                                layer { dense { units: 10 } }
                                layer { dense { units: 1 } }
                              }
                              worker {
                                micro_batch: 10
                                group { pipeline_stages: 2 cuts: "dense1" }
                              }
                              stop { updates: 1 }
                              delays {
                                worker_bandwidth: 600
                                latency { constant { ms: 100 } }
                              }
                            )pb",
                            "test", {});
  ASSERT_TRUE(job.ok()) << job.status();
  const auto pipeline = PipelineTime::OfJob(*job);
  ASSERT_TRUE(pipeline.ok()) << pipeline.status();
  // 300 of 610 multiply-adds; 10 samples of 30 floats are 1,200 bytes.
  const double share = 300.0 / 610;
  const PipelineTime expected({Stage(share, 2), Stage(1 - share)}, 2, 0.1);
  EXPECT_NEAR(pipeline->Task(1).seconds, expected.Task(1).seconds, kNear);
  EXPECT_THAT(
      pipeline->Task(1).computing,
      ElementsAre(DoubleNear(share, kNear), DoubleNear(1 - share, kNear)));
}

}  // namespace
}  // namespace sluice

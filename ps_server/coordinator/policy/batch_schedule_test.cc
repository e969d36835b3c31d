#include "ps_server/coordinator/policy/batch_schedule.h"

#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

// Three mini-batches of 4, 4 and 2 samples an epoch.
BatchGrid SmallGrid() { return BatchGrid(10, 4, 1); }

int64_t Issue(BatchSchedule& schedule, int64_t worker, int partition = 0) {
  const auto next = schedule.Next(partition);
  if (!next.has_value()) return -1;
  schedule.Issue(next->block, WorkerId(worker));
  return next->block.value();
}

void Finish(BatchSchedule& schedule, int64_t block) {
  schedule.Hold(BlockId(block));
  schedule.Done(BlockId(block));
}

TEST(BatchScheduleTest, HandsOutTheLowestFirstAndRunsOnAcrossEpochs) {
  BatchSchedule schedule(SmallGrid(), 1, 2.0);
  for (int64_t b = 0; b < 6; ++b) EXPECT_EQ(Issue(schedule, 0), b);
  EXPECT_EQ(Issue(schedule, 0), -1);
  EXPECT_EQ(schedule.available(), 0);
}

TEST(BatchScheduleTest, NeverEndsWithoutEpochs) {
  BatchSchedule schedule(SmallGrid(), 1, std::nullopt);
  for (int64_t b = 0; b < 100; ++b) {
    EXPECT_EQ(Issue(schedule, 0), b);
    Finish(schedule, b);
  }
  EXPECT_FALSE(schedule.finished());
  EXPECT_EQ(schedule.total(), BatchSchedule::kEndless);
}

TEST(BatchScheduleTest, WhatCameBackGoesOutFirstLowestFirst) {
  BatchSchedule schedule(SmallGrid(), 1, 2.0);
  for (int w = 0; w < 4; ++w) Issue(schedule, w);
  schedule.Return(BlockId(2));
  schedule.Return(BlockId(1));
  EXPECT_EQ(Issue(schedule, 5), 1);
  EXPECT_EQ(Issue(schedule, 5), 2);
  EXPECT_EQ(Issue(schedule, 5), 4);
}

TEST(BatchScheduleTest, RemembersWhoHadABlock) {
  BatchSchedule schedule(SmallGrid(), 1, 2.0);
  Issue(schedule, 7);
  schedule.Return(BlockId(0));
  Issue(schedule, 8);
  EXPECT_EQ(schedule.Reject(BlockId(0)), 1);
  const auto next = schedule.Next(0);
  EXPECT_EQ(next->holders, (std::vector<WorkerId>{WorkerId(7), WorkerId(8)}));
  EXPECT_TRUE(next->rejected);
  // Passing over it leads to what comes after.
  EXPECT_EQ(schedule.Next(0, 1)->block, BlockId(1));
  EXPECT_FALSE(schedule.Next(0, 1)->rejected);
  EXPECT_FALSE(schedule.Next(0, 2).has_value());
}

TEST(BatchScheduleTest, CountsHowOftenABlockWasBad) {
  BatchSchedule schedule(SmallGrid(), 1, 1.0);
  Issue(schedule, 0);
  EXPECT_EQ(schedule.Reject(BlockId(0)), 1);
  Issue(schedule, 1);
  schedule.Return(BlockId(0));
  Issue(schedule, 1);
  EXPECT_EQ(schedule.Reject(BlockId(0)), 2);
  schedule.LeaveOut(BlockId(0));
  EXPECT_EQ(Issue(schedule, 0), 1);
}

TEST(BatchScheduleTest, IsFinishedWhenEveryBlockIsDone) {
  BatchSchedule schedule(SmallGrid(), 1, 1.0);
  for (int64_t b = 0; b < 3; ++b) Issue(schedule, 0);
  Finish(schedule, 2);
  Finish(schedule, 0);
  EXPECT_FALSE(schedule.finished());
  Finish(schedule, 1);
  EXPECT_TRUE(schedule.finished());
}

TEST(BatchScheduleTest, ASnapshotIsALowWaterMarkAndExceptions) {
  BatchSchedule schedule(SmallGrid(), 1, 3.0);
  for (int64_t b = 0; b < 6; ++b) Issue(schedule, 0);
  for (int64_t b : {0, 1, 3, 5}) Finish(schedule, b);
  EXPECT_EQ(schedule.TakeSnapshot().low_water_mark, BlockId(2));
  EXPECT_EQ(schedule.TakeSnapshot().exceptions,
            (std::vector<BlockId>{BlockId(3), BlockId(5)}));
  Finish(schedule, 2);
  EXPECT_EQ(schedule.TakeSnapshot().low_water_mark, BlockId(4));
  EXPECT_EQ(schedule.TakeSnapshot().exceptions,
            (std::vector<BlockId>{BlockId(5)}));
}

TEST(BatchScheduleTest, ABlockIsHConsecutiveMiniBatchesAndTheLastIsShorter) {
  BatchSchedule schedule(SmallGrid(), 4, 2.0);  // 6 mini-batches.
  EXPECT_EQ(schedule.total(), 2);
  EXPECT_EQ(schedule.BlockAt(BlockId(0)).batches, 4);
  EXPECT_EQ(schedule.BlockAt(BlockId(0)).samples, 4 + 4 + 2 + 4);
  EXPECT_EQ(schedule.BlockAt(BlockId(1)).first_batch, BatchId(4));
  EXPECT_EQ(schedule.BlockAt(BlockId(1)).batches, 2);
  EXPECT_EQ(schedule.BlockAt(BlockId(1)).samples, 4 + 2);
}

TEST(BatchScheduleTest, APartOfAnEpochIsRoundedUpToMiniBatches) {
  EXPECT_EQ(BatchSchedule(SmallGrid(), 1, 0.5).total(), 2);
  EXPECT_EQ(BatchSchedule(SmallGrid(), 1, 1.0).total(), 3);
  EXPECT_EQ(BatchSchedule(BatchGrid(10, 1, 1), 1, 0.1).total(), 1);
  EXPECT_EQ(BatchSchedule(BatchGrid(100, 1, 1), 1, 0.07).total(), 7);
  EXPECT_EQ(BatchSchedule(BatchGrid(3, 1, 1), 1, 1e9).total(), 3000000000);
  EXPECT_EQ(BatchSchedule(BatchGrid(10, 1, 1), 1, 0.3).total(), 3);
}

TEST(BatchScheduleTest, OnlyBlocksBelowTheLimitGoOut) {
  BatchSchedule schedule(SmallGrid(), 1, 2.0);
  schedule.LimitTo(BlockId(2));
  EXPECT_EQ(schedule.available(), 2);
  EXPECT_EQ(Issue(schedule, 0), 0);
  EXPECT_EQ(Issue(schedule, 0), 1);
  EXPECT_EQ(Issue(schedule, 0), -1);
  schedule.Return(BlockId(1));
  EXPECT_EQ(schedule.available(), 1);
  schedule.LimitTo(BlockId(100));
  EXPECT_EQ(schedule.available(), 5);
}

TEST(BatchScheduleTest, WhatIsLeftOutIsDone) {
  BatchSchedule schedule(SmallGrid(), 1, 1.0);
  Issue(schedule, 0);
  Issue(schedule, 0);
  schedule.Return(BlockId(0));
  EXPECT_EQ(schedule.LeaveOutBelow(BlockId(3)), 2);
  EXPECT_EQ(schedule.available(), 0);
  Finish(schedule, 1);
  EXPECT_TRUE(schedule.finished());
}

TEST(BatchScheduleTest, APartitionHandsOutItsOwnOnly) {
  // 9 samples in two partitions: mini-batches 0 and 2 of the first, 1 of the
  // second; the next epoch begins with 3.
  BatchSchedule schedule(BatchGrid(9, 4, 2), 1, 2.0);
  EXPECT_EQ(schedule.available(0), 4);
  EXPECT_EQ(schedule.available(1), 2);
  EXPECT_EQ(Issue(schedule, 0, 0), 0);
  EXPECT_EQ(Issue(schedule, 0, 0), 2);
  EXPECT_EQ(Issue(schedule, 0, 0), 3);
  EXPECT_EQ(Issue(schedule, 1, 1), 1);
  EXPECT_EQ(Issue(schedule, 1, 1), 4);
  EXPECT_EQ(Issue(schedule, 1, 1), -1);
  schedule.Return(BlockId(1));
  EXPECT_EQ(schedule.Next(0)->block, BlockId(5));
  EXPECT_EQ(schedule.Next(1)->block, BlockId(1));
  EXPECT_EQ(schedule.available(), 2);
}

TEST(BatchScheduleTest, WhatWasNotDoneAtASnapshotGoesOutAgainFirst) {
  const BatchSchedule resumed(SmallGrid(), 1, 3.0,
                              {BlockId(2), {BlockId(3), BlockId(5)}});
  EXPECT_EQ(resumed.done(), 4);
  EXPECT_EQ(resumed.Next(0)->block, BlockId(2));
  EXPECT_EQ(resumed.Next(0, 1)->block, BlockId(4));
  EXPECT_EQ(resumed.Next(0, 2)->block, BlockId(6));
  EXPECT_TRUE(resumed.Next(0)->holders.empty());
  EXPECT_EQ(resumed.available(), resumed.total() - 4);
  const BatchSchedule::Snapshot again = resumed.TakeSnapshot();
  EXPECT_EQ(again.low_water_mark, BlockId(2));
  EXPECT_EQ(again.exceptions, (std::vector{BlockId(3), BlockId(5)}));
}

TEST(BatchScheduleTest, ASnapshotHoldsForEachPartition) {
  // As above: 0, 2, 3, 5 of the first partition, 1 and 4 of the second.
  BatchSchedule schedule(BatchGrid(9, 4, 2), 1, 2.0,
                         {BlockId(1), {BlockId(2), BlockId(3)}});
  EXPECT_EQ(schedule.available(0), 1);
  EXPECT_EQ(schedule.available(1), 2);
  EXPECT_EQ(Issue(schedule, 1, 1), 1);
  EXPECT_EQ(Issue(schedule, 1, 1), 4);
  EXPECT_EQ(Issue(schedule, 0, 0), 5);
  EXPECT_EQ(schedule.available(), 0);
}

}  // namespace
}  // namespace sluice

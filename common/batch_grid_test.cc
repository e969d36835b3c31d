#include "common/batch_grid.h"

#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(BatchGridTest, OnlyTheLastMiniBatchOfAnEpochIsShort) {
  const BatchGrid grid(10, 4, 1);
  EXPECT_EQ(grid.batches_per_epoch(), 3);
  EXPECT_EQ(grid.SliceOf(BatchId(0)).samples, 4);
  EXPECT_EQ(grid.SliceOf(BatchId(2)).samples, 2);
  EXPECT_EQ(grid.SliceOf(BatchId(3)).samples, 4);
  EXPECT_EQ(grid.SliceOf(BatchId(5)).epoch, 1);
  EXPECT_EQ(grid.SliceOf(BatchId(5)).first, 8);
}

TEST(BatchGridTest, EverySampleOfAnEpochIsInExactlyOneMiniBatch) {
  for (int64_t samples : {1, 7, 8, 9, 12, 13, 31}) {
    for (int partitions : {1, 2, 3, 4}) {
      if (partitions > samples) continue;
      const BatchGrid grid(samples, 4, partitions);
      std::vector<int> seen(samples);
      for (int64_t b = 0; b < grid.batches_per_epoch(); ++b) {
        const auto slice = grid.SliceOf(BatchId(b));
        EXPECT_EQ(slice.epoch, 0);
        EXPECT_GE(slice.samples, 1);
        EXPECT_LE(slice.samples, 4);
        const auto partition = grid.PartitionAt(slice.partition);
        for (int64_t i = 0; i < slice.samples; ++i) {
          ++seen[partition.first + slice.first + i];
        }
      }
      EXPECT_EQ(seen, std::vector<int>(samples, 1))
          << samples << " samples, " << partitions << " partitions";
    }
  }
}

TEST(BatchGridTest, CountsAndFindsTheMiniBatchesOfAPartition) {
  // Nine samples, partitions of 5 and 4, mini-batches of 4: the first partition
  // has two mini-batches, the second has one.
  const BatchGrid grid(9, 4, 2);
  EXPECT_EQ(grid.batches_per_epoch(), 3);
  std::vector<int64_t> index(2);
  for (int64_t b = 0; b < 30; ++b) {
    for (int p = 0; p < 2; ++p) {
      EXPECT_EQ(grid.CountBefore(BatchId(b), p), index[p]);
    }
    const int p = grid.SliceOf(BatchId(b)).partition;
    EXPECT_EQ(grid.BatchAt(index[p], p), BatchId(b));
    ++index[p];
  }
}

}  // namespace
}  // namespace sluice

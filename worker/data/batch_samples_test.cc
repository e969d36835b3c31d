#include "worker/data/batch_samples.h"

#include <algorithm>
#include <numeric>

#include "common/batch_grid.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

int64_t BatchesPerEpoch(const BatchSampling& s) {
  return BatchGrid(s.train_samples, s.batch_size, s.partitions)
      .batches_per_epoch();
}

// The samples of one epoch, in the order of its mini-batches.
std::vector<int64_t> Epoch(const BatchSampling& s, int64_t epoch) {
  std::vector<int64_t> all;
  const int64_t batches = BatchesPerEpoch(s);
  for (int64_t b = 0; b < batches; ++b) {
    const auto samples = BatchSamples(s, BatchId(epoch * batches + b));
    all.insert(all.end(), samples.begin(), samples.end());
  }
  return all;
}

TEST(BatchSamplesTest, EverySampleComesExactlyOncePerEpoch) {
  for (const int64_t samples : {1, 2, 7, 64, 65, 1000}) {
    for (const int batch_size : {1, 3, 64, 2000}) {
      for (const int partitions : {1, 2, 3, 7}) {
        if (partitions > samples) continue;
        for (const bool shuffle : {false, true}) {
          const BatchSampling sampling{.seed = 5,
                                       .train_samples = samples,
                                       .batch_size = batch_size,
                                       .shuffle = shuffle,
                                       .partitions = partitions};
          std::vector<int64_t> expected(samples);
          std::iota(expected.begin(), expected.end(), 0);
          for (const int64_t epoch : {0, 1, 1000000}) {
            std::vector<int64_t> all = Epoch(sampling, epoch);
            std::sort(all.begin(), all.end());
            ASSERT_EQ(all, expected)
                << samples << " samples, batches of " << batch_size << ", "
                << partitions << " partitions, epoch " << epoch;
          }
        }
      }
    }
  }
}

TEST(BatchSamplesTest, OnlyTheLastMiniBatchOfAnEpochIsShort) {
  const BatchSampling sampling{.train_samples = 10, .batch_size = 4};
  EXPECT_EQ(BatchSamples(sampling, BatchId(0)).size(), 4);
  EXPECT_EQ(BatchSamples(sampling, BatchId(1)).size(), 4);
  EXPECT_EQ(BatchSamples(sampling, BatchId(2)).size(), 2);
  EXPECT_EQ(BatchSamples(sampling, BatchId(3)).size(), 4);
  EXPECT_EQ(BatchSamples(sampling, BatchId(5)).size(), 2);
}

TEST(BatchSamplesTest, WithoutShufflingTheFilesOrderIsKept) {
  const BatchSampling sampling{
      .train_samples = 5, .batch_size = 2, .shuffle = false};
  EXPECT_THAT(BatchSamples(sampling, BatchId(1)), ElementsAre(2, 3));
  EXPECT_THAT(BatchSamples(sampling, BatchId(2)), ElementsAre(4));
  EXPECT_THAT(BatchSamples(sampling, BatchId(3)), ElementsAre(0, 1));
}

TEST(BatchSamplesTest, EachEpochAndEachSeedHasItsOwnOrder) {
  BatchSampling sampling{.train_samples = 1000, .batch_size = 64};
  const std::vector<int64_t> first = Epoch(sampling, 0);
  EXPECT_EQ(Epoch(sampling, 0), first);
  EXPECT_NE(Epoch(sampling, 1), first);
  sampling.seed = 2;
  EXPECT_NE(Epoch(sampling, 0), first);
}

TEST(BatchSamplesTest, APartitionsMiniBatchesStayInsideIt) {
  const BatchSampling sampling{
      .train_samples = 103, .batch_size = 10, .partitions = 4};
  const BatchGrid grid(103, 10, 4);
  for (int64_t b = 0; b < 3 * grid.batches_per_epoch(); ++b) {
    const auto partition = grid.PartitionAt(grid.SliceOf(BatchId(b)).partition);
    for (const int64_t sample : BatchSamples(sampling, BatchId(b))) {
      EXPECT_GE(sample, partition.first);
      EXPECT_LT(sample, partition.first + partition.size);
    }
  }
}

// The values are written down, because a change of the order would change every
// run's bits.
TEST(BatchSamplesTest, TheOrderIsTheSameInEveryRelease) {
  EXPECT_THAT(BatchSamples({.seed = 1, .train_samples = 60000, .batch_size = 4},
                           BatchId(0)),
              ElementsAre(13674, 58702, 45568, 37967));
}

}  // namespace
}  // namespace sluice

#include "worker/compute/likely_batches.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(LikelyBatchesTest, OfAPartitionTheNextIsKnown) {
  // Epochs of 41 mini-batches, so that partitions have 5 or 6, some short.
  const BatchSampling sampling = {
      .train_samples = 404, .batch_size = 10, .partitions = 8};
  const BatchGrid grid(404, 10, 8);
  for (const int partition : {0, 3, 7}) {
    LikelyBatches likely(sampling, 8);
    for (int64_t i = 0; i < 40; ++i) {
      EXPECT_EQ(likely.After(grid.BatchAt(i, partition), 1),
                grid.BatchAt(i + 1, partition));
    }
  }
}

TEST(LikelyBatchesTest, ALongPauseIsForgottenAfterAFewTasks) {
  LikelyBatches likely({.train_samples = 1000, .batch_size = 1}, 8);
  int64_t at = 0;
  for (int i = 0; i < 10; ++i) likely.After(BatchId(at += 8), 1);
  likely.After(BatchId(at += 8000), 1);
  int wrong = 0;
  for (int i = 0; i < 20; ++i) {
    at += 8;
    wrong += likely.After(BatchId(at), 1) == BatchId(at + 8) ? 0 : 1;
  }
  EXPECT_LE(wrong, 5);
}

}  // namespace
}  // namespace sluice

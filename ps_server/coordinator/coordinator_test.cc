#include "ps_server/coordinator/coordinator.h"

#include <vector>

#include "gtest/gtest.h"
#include "ps_server/coordinator/testing/driver.h"

namespace sluice {
namespace {

using Batches = std::vector<std::vector<int64_t>>;

CoordinatorOptions Options(PolicyKind policy, int workers, int k) {
  CoordinatorOptions options;
  options.workers = workers;
  options.shards = 2;
  options.sync.policy = policy;
  options.sync.k = k;
  options.sync.gradients_per_update = k;
  options.train_samples = 40;
  options.batch_size = 4;
  options.staged_gradients = k + workers;
  options.stop.epochs = 1;
  return options;
}

TEST(SyncTest, AVersionConsistsOfTheNextMiniBatchesInOrder) {
  Driver run(Options(PolicyKind::kSync, 2, 2));
  run.Start();
  for (int update = 0; update < 5; ++update) {
    EXPECT_TRUE(run.Deliver(1).ok());
    EXPECT_TRUE(run.Deliver(0).ok());
  }
  EXPECT_EQ(run.CommittedBatches(),
            (Batches{{0, 1}, {2, 3}, {4, 5}, {6, 7}, {8, 9}}));
  ASSERT_TRUE(run.Finished().has_value());
  EXPECT_EQ(run.Finished()->failure, "");
}

TEST(KSyncTest, TheKthGradientCommitsTheUpdateAndCancelsTheRest) {
  Driver run(Options(PolicyKind::kKSync, 3, 2));
  run.Start();
  const Task straggler = *run.TaskOf(1);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_FALSE(run.TaskOf(0).has_value());
  EXPECT_EQ(run.version(), 0);
  EXPECT_TRUE(run.Deliver(2).ok());
  EXPECT_EQ(run.version(), 1);
  EXPECT_EQ(run.CommittedBatches(), (Batches{{0, 2}}));
  ASSERT_TRUE(run.VerdictOf(straggler.key).has_value());
  EXPECT_EQ(run.VerdictOf(straggler.key)->outcome, Outcome::kCancelled);
  EXPECT_TRUE(absl::IsAborted(run.Deliver(straggler, 0)));
  // Its mini-batch goes out again first, to somebody else.
  EXPECT_EQ(run.BatchOf(0), 1);
  EXPECT_EQ(run.BatchOf(1), 3);
  EXPECT_EQ(run.BatchOf(2), 4);
}

}  // namespace
}  // namespace sluice

// The policies' identities: two jobs that differ in the policy only and are
// told the same make the same sequence of updates, bit for bit.
#include <cstdint>
#include <ostream>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "ps_server/coordinator/testing/fake_cluster.h"
#include "ps_server/coordinator/testing/jobs.h"

namespace sluice {
namespace {

constexpr uint64_t kSeeds = 200;
constexpr int64_t kManySteps = 400000;  // A run takes about 2,000.

// What decides the bits of an update.
struct Update {
  int64_t version = 0;
  double learning_rate = 0;
  std::vector<std::tuple<int64_t, Version, float>> entries;

  auto operator<=>(const Update&) const = default;
};
void PrintTo(const Update& update, std::ostream* out) {
  *out << "v" << update.version << ":";
  for (const auto& [batch, base, weight] : update.entries) {
    *out << " " << batch << "@" << base << "*" << weight;
  }
}

CoordinatorOptions Job(proto::Policy policy, int workers, int k) {
  CoordinatorOptions options = PlainJob();
  options.job.mutable_cluster()->set_workers(workers);
  options.job.mutable_cluster()->set_max_workers(100);
  options.job.mutable_cluster()->set_shards(2);
  options.job.mutable_sync()->set_policy(policy);
  options.job.mutable_sync()->set_k(k);
  options.job.mutable_sync()->set_gradients_per_update(k);
  // 14 mini-batches an epoch, the last one short; not a multiple of K.
  options.train_samples = 54;
  options.job.mutable_data()->set_batch_size(4);
  options.job.mutable_limits()->set_staged_gradients(k + workers);
  options.job.mutable_stop()->set_epochs(2);
  options.job.mutable_schedule()->mutable_cosine()->set_epochs(2);
  return options;
}

std::vector<Update> UpdatesOf(const CoordinatorOptions& options,
                              const FakeFaults& faults, uint64_t seed) {
  FakeCluster cluster(options, faults, seed);
  cluster.Run(kManySteps);
  EXPECT_EQ(cluster.Violation(), "");
  std::vector<Update> updates;
  for (const RecordCommit& commit : cluster.checker().commits()) {
    Update& update = updates.emplace_back();
    update.version = commit.version.value();
    update.learning_rate = commit.learning_rate;
    for (const auto& entry : commit.entries) {
      for (Version base : entry.shard_bases) {
        update.entries.emplace_back(entry.first_batch.value(), base,
                                    entry.weight);
      }
    }
  }
  return updates;
}

// Messages are late, repeated, and streams break; but all workers live.
FakeFaults AllWorkersLive() {
  FakeFaults faults;
  faults.reconnect = 10;
  faults.duplicate = 100;
  return faults;
}

void ExpectEqualUpdates(const CoordinatorOptions& one,
                        const CoordinatorOptions& other) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto updates = UpdatesOf(one, AllWorkersLive(), seed);
    ASSERT_FALSE(updates.empty());
    ASSERT_EQ(updates, UpdatesOf(other, AllWorkersLive(), seed))
        << "seed " << seed;
  }
}

TEST(PolicyIdentityTest, KSyncWithKEqualToPIsSync) {
  ExpectEqualUpdates(Job(proto::K_SYNC, 4, 4), Job(proto::SYNC, 4, 4));
}

TEST(PolicyIdentityTest, KAsyncWithKEqualToPIsSync) {
  ExpectEqualUpdates(Job(proto::K_ASYNC, 4, 4), Job(proto::SYNC, 4, 4));
}

TEST(PolicyIdentityTest, KAsyncWithKOneIsAsync) {
  ExpectEqualUpdates(Job(proto::K_ASYNC, 4, 1), Job(proto::ASYNC, 4, 1));
}

TEST(PolicyIdentityTest, KBatchAsyncWithKOneIsAsync) {
  ExpectEqualUpdates(Job(proto::K_BATCH_ASYNC, 4, 1), Job(proto::ASYNC, 4, 1));
}

TEST(PolicyIdentityTest, KBatchSyncWithKOneIsKSyncWithKOne) {
  ExpectEqualUpdates(Job(proto::K_BATCH_SYNC, 4, 1), Job(proto::K_SYNC, 4, 1));
}

TEST(PolicyIdentityTest, KBatchAsyncThatCancelsTheStaleIsKBatchSync) {
  for (int k : {1, 3, 6}) {
    CoordinatorOptions cancels = Job(proto::K_BATCH_ASYNC, 4, k);
    *cancels.job.mutable_sync()->mutable_staleness() =
        StalenessBound(0, proto::Staleness::CANCEL);
    ExpectEqualUpdates(cancels, Job(proto::K_BATCH_SYNC, 4, k));
  }
}

// An identity that held for everything would prove nothing.
TEST(PolicyIdentityTest, PoliciesThatDifferMakeDifferentUpdates) {
  EXPECT_NE(UpdatesOf(Job(proto::K_ASYNC, 4, 2), {}, 1),
            UpdatesOf(Job(proto::K_BATCH_ASYNC, 4, 2), {}, 1));
  EXPECT_NE(UpdatesOf(Job(proto::K_SYNC, 4, 2), {}, 1),
            UpdatesOf(Job(proto::K_BATCH_SYNC, 4, 2), {}, 1));
  EXPECT_NE(UpdatesOf(Job(proto::ASYNC, 4, 1), {}, 1),
            UpdatesOf(Job(proto::ASYNC, 4, 1), {}, 2));
}

TEST(SyncIndependenceTest,
     DoesNotDependOnTheNumberOfWorkersTheirDeathsOrTheOrder) {
  FakeFaults faults = AllWorkersLive();
  const auto expected = UpdatesOf(Job(proto::SYNC, 4, 4), faults, 1);
  ASSERT_EQ(expected.size(), 7);  // 28 mini-batches, 4 in each.
  faults.kill = 5;
  faults.join = 1;
  faults.leave = 1;
  int64_t kills = 0;
  for (int workers : {1, 2, 3, 4, 7}) {
    CoordinatorOptions job = Job(proto::SYNC, 4, 4);
    job.job.mutable_cluster()->set_workers(workers);
    for (uint64_t seed = 1; seed <= 60; ++seed) {
      FakeCluster counted(job, faults, seed);
      counted.Run(kManySteps);
      kills += counted.kills();
      ASSERT_EQ(UpdatesOf(job, faults, seed), expected)
          << workers << " workers, seed " << seed;
    }
  }
  EXPECT_GT(kills, 100);
}

TEST(SyncIndependenceTest, OneGradientRefusedOnceChangesNothing) {
  FakeFaults faults;
  const auto expected = UpdatesOf(Job(proto::SYNC, 4, 4), faults, 1);
  faults.poison = 20;
  int compared = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    FakeCluster cluster(Job(proto::SYNC, 4, 4), faults, seed);
    cluster.Run(kManySteps);
    ASSERT_EQ(cluster.Violation(), "");
    // A mini-batch that was refused twice ended the run, as it should.
    if (!cluster.finished()->failure.empty()) continue;
    if (cluster.checker().ends(Outcome::kRejected) == 0) continue;
    ++compared;
    ASSERT_EQ(UpdatesOf(Job(proto::SYNC, 4, 4), faults, seed), expected);
  }
  EXPECT_GT(compared, 10);
}

}  // namespace
}  // namespace sluice

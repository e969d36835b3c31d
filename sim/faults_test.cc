// Every policy on a network that loses, repeats, delays (so that pulls and
// pushes overtake each other) and cuts, with workers that die and processes
// that stand still: the guarantees hold after every event, and the run ends
// once the faults have healed.
#include <cstdint>
#include <string>

#include "gtest/gtest.h"
#include "sim/testing/faulty_cluster.h"

namespace sluice {
namespace {

// 2,000 in all.
constexpr uint64_t kSeedsPerPolicy = 334;
constexpr absl::Duration kEnd = absl::Minutes(5);

CoordinatorOptions AnyJob(PolicyKind policy, uint64_t seed) {
  const Random random(seed, "faulty job");
  uint64_t draws = 0;
  const auto draw = [&](uint64_t below) {
    return static_cast<int>(random.Uint64(draws++) % below);
  };
  CoordinatorOptions options;
  options.grant_secret = 1 + seed;
  options.workers = 1 + draw(5);
  options.shards = 1 + draw(3);
  options.sync.policy = policy;
  options.sync.k = 1 + draw(options.workers);
  options.sync.gradients_per_update = 1 + draw(5);
  options.sync.local_steps = 1 + draw(2);
  options.sync.on_shortage =
      draw(2) == 0 ? OnShortage::kWait : OnShortage::kShrink;
  options.sync.shortage_timeout = absl::Hours(1);
  if (draw(2) == 0) {
    constexpr StalenessAction kActions[] = {
        StalenessAction::kWait, StalenessAction::kDrop,
        StalenessAction::kCancel, StalenessAction::kDownweight};
    options.sync.staleness = StalenessBound{draw(4), kActions[draw(4)]};
  }
  options.train_samples = 40 + draw(60);
  options.batch_size = 1 + draw(6);
  const int needed = policy == PolicyKind::kSync
                         ? options.sync.gradients_per_update
                         : options.sync.k;
  options.staged_gradients = needed + draw(options.workers + 1);
  options.commit_window = 1 + draw(3);
  options.stop.epochs = 0.5 * (1 + draw(4));
  options.tick = absl::Milliseconds(50);
  return options;
}

Faults EverythingGoesWrong() {
  Faults faults;
  faults.lose = 10;
  faults.duplicate = 20;
  faults.delay = 20;
  faults.kill = 15;
  faults.pause = 15;
  faults.partition = 15;
  return faults;
}

class FaultsTest : public testing::TestWithParam<PolicyKind> {};

TEST_P(FaultsTest, TheGuaranteesHoldWhateverHappensAndTheRunEnds) {
  FaultCounts all;
  int64_t updates = 0, reads = 0;
  for (uint64_t seed = 1; seed <= kSeedsPerPolicy; ++seed) {
    FaultyCluster cluster(AnyJob(GetParam(), seed), EverythingGoesWrong(),
                          seed);
    cluster.Run(/*heal=*/absl::Seconds(1 + seed % 7), kEnd);
    ASSERT_EQ(cluster.Violation(), "");
    const FaultCounts& counts = cluster.counts();
    all.lost += counts.lost;
    all.duplicated += counts.duplicated;
    all.delayed += counts.delayed;
    all.kills += counts.kills;
    all.pauses += counts.pauses;
    all.partitions += counts.partitions;
    all.reconnects += counts.reconnects;
    all.new_lives += counts.new_lives;
    updates += cluster.checker().commits().size();
    reads += cluster.reads();
  }
  // Each fault has struck often, and was survived in the ways there are.
  for (const int64_t count :
       {all.lost, all.duplicated, all.delayed, all.kills, all.pauses,
        all.partitions, all.reconnects, all.new_lives, updates, reads}) {
    EXPECT_GT(count, 30);
  }
}

// Else a seed that is printed could not be run again.
TEST_P(FaultsTest, OneSeedGivesOneRun) {
  for (uint64_t seed = 1; seed <= 30; ++seed) {
    const auto run = [&](FaultyCluster* cluster) {
      cluster->Run(/*heal=*/absl::Seconds(1 + seed % 7), kEnd);
    };
    const CoordinatorOptions job = AnyJob(GetParam(), seed);
    FaultyCluster one(job, EverythingGoesWrong(), seed);
    run(&one);
    FaultyCluster again(job, EverythingGoesWrong(), seed);
    run(&again);
    EXPECT_EQ(one.counts(), again.counts()) << "seed " << seed;
    EXPECT_EQ(one.reads(), again.reads()) << "seed " << seed;
    EXPECT_EQ(one.checker().commits().size(), again.checker().commits().size())
        << "seed " << seed;
  }
}

std::string NameOf(const testing::TestParamInfo<PolicyKind>& info) {
  constexpr const char* kNames[] = {"Sync",  "KSync",  "KBatchSync",
                                    "Async", "KAsync", "KBatchAsync"};
  return kNames[static_cast<int>(info.param)];
}

INSTANTIATE_TEST_SUITE_P(Policies, FaultsTest,
                         testing::Values(PolicyKind::kSync, PolicyKind::kKSync,
                                         PolicyKind::kKBatchSync,
                                         PolicyKind::kAsync,
                                         PolicyKind::kKAsync,
                                         PolicyKind::kKBatchAsync),
                         NameOf);

}  // namespace
}  // namespace sluice

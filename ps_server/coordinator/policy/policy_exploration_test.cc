// Every policy, many seeds, everything that may go wrong: after every step the
// rules of InvariantChecker hold, and every run comes to its end.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "common/random.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/policy/policy_rules.h"
#include "ps_server/coordinator/testing/fake_cluster.h"

namespace sluice {
namespace {

constexpr int64_t kManySteps = 400000;  // A run takes about 5,000.
constexpr PolicyKind kAllPolicies[] = {
    PolicyKind::kSync,  PolicyKind::kKSync,  PolicyKind::kKBatchSync,
    PolicyKind::kAsync, PolicyKind::kKAsync, PolicyKind::kKBatchAsync,
};

CoordinatorOptions Options(PolicyKind policy) {
  CoordinatorOptions options;
  options.workers = 4;
  options.max_workers = 9;
  options.shards = 2;
  options.evaluator = true;
  options.sync.policy = policy;
  options.sync.k = 3;
  options.sync.gradients_per_update = 4;
  options.sync.shortage_timeout = absl::Seconds(100000);
  options.train_samples = 45;
  options.batch_size = 4;
  options.staged_gradients = 7;
  options.commit_window = 2;
  options.stop.epochs = 3;
  options.evaluate_every_samples = 20;
  return options;
}

FakeFaults EverythingGoesWrong() {
  FakeFaults faults;
  faults.kill = 4;
  faults.reconnect = 10;
  faults.duplicate = 100;
  faults.join = 1;
  faults.kill_evaluator = 20;
  faults.disk_refuses = 100;
  faults.disk_hangs = 20;
  faults.pause = 10;
  return faults;
}

void ExpectEveryBatchOnce(const FakeCluster& cluster, int64_t batches) {
  int64_t committed = 0;
  for (const RecordCommit& commit : cluster.checker().commits()) {
    for (const auto& entry : commit.entries) committed += entry.batches;
  }
  EXPECT_EQ(committed, batches);
}

class EveryPolicyTest : public testing::TestWithParam<PolicyKind> {};

TEST_P(EveryPolicyTest, KeepsTheRulesAndEndsWhateverHappens) {
  int64_t kills = 0, late = 0, window_full = 0, room_full = 0;
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    FakeCluster cluster(Options(GetParam()), EverythingGoesWrong(), seed);
    cluster.Run(kManySteps);
    ASSERT_EQ(cluster.Violation(), "");
    ASSERT_EQ(cluster.finished()->failure, "") << "seed " << seed;
    ExpectEveryBatchOnce(cluster, 36);
    kills += cluster.kills();
    late += cluster.late_deliveries();
    window_full += cluster.checker().window_full();
    room_full += cluster.checker().room_full();
  }
  EXPECT_GT(kills, 0);
  EXPECT_GT(late, 0);
  EXPECT_GT(room_full, 0);
  if (GetParam() == PolicyKind::kAsync) {
    EXPECT_GT(window_full, 0);
  }
}

// How K changes, at most to `more` above the number of workers; returns the
// largest K there is.
int DrawKSchedule(int more, const std::function<int(uint64_t)>& draw,
                  CoordinatorOptions* options) {
  SyncOptions& sync = options->sync;
  if (sync.policy == PolicyKind::kSync || sync.policy == PolicyKind::kAsync) {
    return sync.k;
  }
  const int most = options->workers + more;
  switch (draw(3)) {
    case 0: {
      const int first = 1 + draw(most), second = 1 + draw(most);
      sync.k_schedule = KByVersion{{{draw(3), first}, {3 + draw(5), second}}};
      return std::max({sync.k, first, second});
    }
    case 1:
      sync.k_schedule = AdaptiveK{most, 1 + draw(4)};
      return most;
    default:
      return sync.k;
  }
}

// Whether, when and how many versions are stored. Who hangs is given up by the
// deadline, which no healthy task comes near.
void DrawCheckpoints(const std::function<int(uint64_t)>& draw,
                     CoordinatorOptions* options) {
  CheckpointOptions& checkpoints = options->checkpoints;
  if (draw(4) != 0) checkpoints.every_updates = 1 + draw(6);
  if (draw(4) == 0) checkpoints.every = absl::Milliseconds(1 + draw(2000));
  checkpoints.keep = 1 + draw(3);
  options->task_deadline = absl::Seconds(10);
}

// One job drawn from the seed, over all that can be set.
CoordinatorOptions AnyJob(PolicyKind policy, uint64_t seed) {
  const Random random(seed, "any job");
  uint64_t draws = 0;
  const auto draw = [&](uint64_t below) {
    return static_cast<int>(random.Uint64(draws++) % below);
  };
  CoordinatorOptions options = Options(policy);
  options.workers = 1 + draw(6);
  options.shards = 1 + draw(3);
  options.static_partitions = draw(3) == 0;
  options.max_workers = options.workers + 5;
  options.sync.k = 1 + draw(options.workers);
  const bool by_batches =
      policy == PolicyKind::kKBatchSync || policy == PolicyKind::kKBatchAsync;
  if (by_batches) options.sync.k += draw(4);
  const int most_k = DrawKSchedule(by_batches ? 4 : 0, draw, &options);
  options.sync.gradients_per_update =
      options.static_partitions ? options.workers : 1 + draw(7);
  if (!options.static_partitions) options.sync.local_steps = 1 + draw(3);
  options.sync.on_shortage =
      draw(2) == 0 ? OnShortage::kWait : OnShortage::kShrink;
  options.sync.on_bad_gradient = OnBadGradient::kSkip;
  if (draw(3) == 0) options.sync.warm_start_updates = draw(6);
  if (draw(2) == 0) {
    constexpr StalenessAction kActions[] = {
        StalenessAction::kWait, StalenessAction::kDrop,
        StalenessAction::kCancel, StalenessAction::kDownweight};
    options.sync.staleness = StalenessBound{draw(4), kActions[draw(4)]};
  }
  options.train_samples = options.workers + draw(60);
  options.batch_size = 1 + draw(6);
  const int needed =
      policy == PolicyKind::kSync ? options.sync.gradients_per_update : most_k;
  options.staged_gradients = needed + draw(options.workers + 1);
  options.commit_window = 1 + draw(3);
  options.stop.epochs = 0.5 * (1 + draw(5));
  options.evaluator = draw(3) != 0;
  DrawCheckpoints(draw, &options);
  return options;
}

TEST_P(EveryPolicyTest, KeepsTheRulesAndEndsForAnyJobWhateverHappens) {
  int64_t shrunk = 0, dropped = 0, cancelled = 0, rejected = 0;
  int64_t written = 0, refused = 0, overdue = 0, late_parts = 0, pauses = 0;
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    const CoordinatorOptions options = AnyJob(GetParam(), seed);
    FakeFaults faults = EverythingGoesWrong();
    faults.poison = 10;
    FakeCluster cluster(options, faults, seed);
    cluster.Run(kManySteps);
    ASSERT_EQ(cluster.Violation(), "");
    ASSERT_EQ(cluster.finished()->failure, "") << "seed " << seed;
    for (const RecordCommit& commit : cluster.checker().commits()) {
      shrunk += static_cast<int>(commit.entries.size()) < options.sync.k;
    }
    dropped += cluster.checker().ends(Outcome::kDropped);
    cancelled += cluster.checker().ends(Outcome::kCancelled);
    rejected += cluster.checker().ends(Outcome::kRejected);
    const CheckpointChecker& checkpoints = cluster.checker().checkpoints();
    written += checkpoints.written();
    refused += checkpoints.failed() - checkpoints.overdue();
    overdue += checkpoints.overdue();
    late_parts += checkpoints.late_parts();
    pauses += cluster.pauses();
  }
  for (const int64_t count :
       {cancelled, rejected, written, refused, overdue, late_parts, pauses}) {
    EXPECT_GT(count, 0);
  }
  const PolicyRules rules = RulesOf(Options(GetParam()).sync);
  EXPECT_EQ(dropped > 0, !rules.synchronous());
  if (rules.gradients > 1) {
    EXPECT_GT(shrunk, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryPolicyTest, testing::ValuesIn(kAllPolicies),
                         [](const auto& info) {
                           return PolicyName(info.param);
                         });

}  // namespace
}  // namespace sluice

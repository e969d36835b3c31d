// Every policy, many seeds, everything that may go wrong: after every step the
// rules of InvariantChecker hold, and every run comes to its end.
#include <algorithm>
#include <cstdint>
#include <functional>

#include "common/random.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/policy/policy_rules.h"
#include "ps_server/coordinator/testing/fake_cluster.h"
#include "ps_server/coordinator/testing/jobs.h"

namespace sluice {
namespace {

constexpr int64_t kManySteps = 400000;  // A run takes about 5,000.
constexpr proto::Policy kAllPolicies[] = {
    proto::SYNC,  proto::K_SYNC,  proto::K_BATCH_SYNC,
    proto::ASYNC, proto::K_ASYNC, proto::K_BATCH_ASYNC,
};

CoordinatorOptions Options(proto::Policy policy) {
  CoordinatorOptions options = PlainJob();
  options.job.mutable_cluster()->set_workers(4);
  options.job.mutable_cluster()->set_max_workers(9);
  options.job.mutable_cluster()->set_shards(2);
  options.job.mutable_evaluation()->set_enabled(true);
  options.job.mutable_sync()->set_policy(policy);
  options.job.mutable_sync()->set_k(3);
  options.job.mutable_sync()->set_gradients_per_update(4);
  options.job.mutable_sync()->set_shortage_timeout_s(100000);
  options.train_samples = 45;
  options.job.mutable_data()->set_batch_size(4);
  options.job.mutable_limits()->set_staged_gradients(7);
  options.job.mutable_limits()->set_commit_window(2);
  options.job.mutable_stop()->set_epochs(3);
  options.job.mutable_evaluation()->set_every_epochs(20.0 / 45);
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

class EveryPolicyTest : public testing::TestWithParam<proto::Policy> {};

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
  if (GetParam() == proto::ASYNC) {
    EXPECT_GT(window_full, 0);
  }
}

// How K changes, at most to `more` above the number of workers; returns the
// largest K there is.
int DrawKSchedule(int more, const std::function<int(uint64_t)>& draw,
                  CoordinatorOptions* options) {
  proto::Sync& sync = *options->job.mutable_sync();
  if (sync.policy() == proto::SYNC || sync.policy() == proto::ASYNC) {
    return sync.k();
  }
  const int most = options->job.cluster().workers() + more;
  switch (draw(3)) {
    case 0: {
      const int first = 1 + draw(most), second = 1 + draw(most);
      auto* by_version = sync.mutable_k_schedule()->mutable_by_version();
      by_version->add_change()->set_from_version(draw(3));
      by_version->add_change()->set_from_version(3 + draw(5));
      by_version->mutable_change(0)->set_k(first);
      by_version->mutable_change(1)->set_k(second);
      return std::max({sync.k(), first, second});
    }
    case 1:
      sync.mutable_k_schedule()->mutable_adaptive()->set_max_k(most);
      sync.mutable_k_schedule()->mutable_adaptive()->set_smoothing_updates(
          1 + draw(4));
      return most;
    default:
      return sync.k();
  }
}

// Whether, when and how many versions are stored. Who hangs is given up by the
// deadline, which no healthy task comes near.
void DrawCheckpoints(const std::function<int(uint64_t)>& draw,
                     CoordinatorOptions* options) {
  proto::Checkpoint& checkpoint = *options->job.mutable_checkpoint();
  if (draw(4) != 0) checkpoint.set_every_updates(1 + draw(6));
  if (draw(4) == 0) checkpoint.set_every_s((1 + draw(2000)) / 1e3);
  checkpoint.set_keep(1 + draw(3));
  options->job.mutable_limits()->set_task_deadline_s(10);
}

// One job drawn from the seed, over all that can be set.
CoordinatorOptions AnyJob(proto::Policy policy, uint64_t seed) {
  const Random random(seed, "any job");
  uint64_t draws = 0;
  const auto draw = [&](uint64_t below) {
    return static_cast<int>(random.Uint64(draws++) % below);
  };
  CoordinatorOptions options = Options(policy);
  options.job.mutable_cluster()->set_workers(1 + draw(6));
  options.job.mutable_cluster()->set_shards(1 + draw(3));
  const bool is_static = draw(3) == 0;
  options.job.mutable_data()->set_sharding(is_static ? proto::Data::STATIC
                                                     : proto::Data::DYNAMIC);
  options.job.mutable_cluster()->set_max_workers(
      options.job.cluster().workers() + 5);
  const int k = 1 + draw(options.job.cluster().workers());
  const bool by_batches =
      policy == proto::K_BATCH_SYNC || policy == proto::K_BATCH_ASYNC;
  options.job.mutable_sync()->set_k(by_batches ? k + draw(4) : k);
  const int most_k = DrawKSchedule(by_batches ? 4 : 0, draw, &options);
  options.job.mutable_sync()->set_gradients_per_update(
      is_static ? options.job.cluster().workers() : 1 + draw(7));
  if (!is_static) options.job.mutable_sync()->set_local_steps(1 + draw(3));
  options.job.mutable_sync()->set_on_shortage(draw(2) == 0 ? proto::WAIT
                                                           : proto::SHRINK);
  options.job.mutable_sync()->set_on_bad_gradient(proto::SKIP);
  if (draw(3) == 0) options.job.mutable_sync()->set_warm_start_updates(draw(6));
  if (draw(2) == 0) {
    const int bound = draw(4);
    // Any but ACTION_UNSPECIFIED.
    const int action = 1 + draw(proto::Staleness::Action_ARRAYSIZE - 1);
    *options.job.mutable_sync()->mutable_staleness() =
        StalenessBound(bound, static_cast<proto::Staleness::Action>(action));
  }
  options.train_samples = options.job.cluster().workers() + draw(60);
  options.job.mutable_data()->set_batch_size(1 + draw(6));
  const int needed = policy == proto::SYNC
                         ? options.job.sync().gradients_per_update()
                         : most_k;
  options.job.mutable_limits()->set_staged_gradients(
      needed + draw(options.job.cluster().workers() + 1));
  options.job.mutable_limits()->set_commit_window(1 + draw(3));
  options.job.mutable_stop()->set_epochs(0.5 * (1 + draw(5)));
  options.job.mutable_evaluation()->set_enabled(draw(3) != 0);
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
      shrunk +=
          static_cast<int>(commit.entries.size()) < options.job.sync().k();
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
  const PolicyRules rules = RulesOf(GetParam());
  EXPECT_EQ(dropped > 0, !rules.synchronous());
  if (GetParam() != proto::ASYNC) {
    EXPECT_GT(shrunk, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(All, EveryPolicyTest, testing::ValuesIn(kAllPolicies),
                         [](const auto& info) {
                           return proto::Policy_Name(info.param);
                         });

}  // namespace
}  // namespace sluice

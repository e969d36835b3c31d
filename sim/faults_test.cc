// Every policy on a network that loses, repeats, delays and cuts messages, so
// that pulls and pushes overtake each other; on disks that fail; with workers,
// shards and coordinators that pause and die, and that exist twice at once. The
// guarantees hold after every event, and the run ends once the faults have
// healed.
#include "sim/testing/faults.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "ps_server/coordinator/testing/jobs.h"
#include "sim/testing/faulty_cluster.h"

namespace sluice {
namespace {

// 3,000 seeds in total; the default tests and the mutation tests need fewer.
#ifndef SLUICE_SEEDS_PER_POLICY
#define SLUICE_SEEDS_PER_POLICY 500
#endif
constexpr uint64_t kSeedsPerPolicy = SLUICE_SEEDS_PER_POLICY;
constexpr absl::Duration kEnd = absl::Minutes(10);

CoordinatorOptions AnyJob(proto::Policy policy, uint64_t seed) {
  const Random random(seed, "faulty job");
  uint64_t draws = 0;
  const auto draw = [&](uint64_t below) {
    return static_cast<int>(random.Uint64(draws++) % below);
  };
  CoordinatorOptions options = PlainJob();
  options.grant_secret = absl::StrCat("seed ", seed);
  options.job.mutable_cluster()->set_workers(1 + draw(5));
  options.job.mutable_cluster()->set_shards(1 + draw(3));
  options.job.mutable_sync()->set_policy(policy);
  options.job.mutable_sync()->set_k(1 + draw(options.job.cluster().workers()));
  options.job.mutable_sync()->set_gradients_per_update(1 + draw(5));
  options.job.mutable_sync()->set_local_steps(1 + draw(2));
  options.job.mutable_sync()->set_on_shortage(draw(2) == 0 ? proto::WAIT
                                                           : proto::SHRINK);
  options.job.mutable_sync()->set_shortage_timeout_s(3600);
  if (draw(2) == 0) {
    const int bound = draw(4);
    // Any but ACTION_UNSPECIFIED.
    const int action = 1 + draw(proto::Staleness::Action_ARRAYSIZE - 1);
    *options.job.mutable_sync()->mutable_staleness() =
        StalenessBound(bound, static_cast<proto::Staleness::Action>(action));
  }
  // Makes the learning rate depend on the samples applied so far.
  const int warmup_samples = draw(50);
  options.train_samples = 40 + draw(60);
  options.job.mutable_schedule()->set_warmup_epochs(
      static_cast<double>(warmup_samples) / options.train_samples);
  options.job.mutable_data()->set_batch_size(1 + draw(6));
  const int needed = policy == proto::SYNC
                         ? options.job.sync().gradients_per_update()
                         : options.job.sync().k();
  options.job.mutable_limits()->set_staged_gradients(
      needed + draw(options.job.cluster().workers() + 1));
  options.job.mutable_limits()->set_commit_window(1 + draw(3));
  options.job.mutable_stop()->set_epochs(0.5 * (1 + draw(4)));
  if (draw(8) != 0)
    options.job.mutable_checkpoint()->set_every_updates(1 + draw(6));
  if (draw(4) == 0) options.job.mutable_checkpoint()->set_every_s(1 + draw(3));
  options.job.mutable_checkpoint()->set_keep(1 + draw(2));
  options.job.mutable_limits()->set_task_deadline_s(30);
  // Longer than the pauses and cuts of a shard can add up to.
  options.job.mutable_limits()->set_lease_s(8);
  options.tick = absl::Milliseconds(50);
  options.job.mutable_cluster()->set_max_workers(
      options.job.cluster().workers() + draw(3));
  // From zero to longer than any worker is away.
  options.job.mutable_limits()->set_regroup_timeout_s(draw(16));
  // Under SYNC it may be less than an update takes.
  if (policy == proto::SYNC && draw(2) == 0) {
    options.job.mutable_limits()->set_staged_gradients(1 + draw(needed));
  }
  return options;
}

Faults EverythingGoesWrong() {
  Faults faults;
  faults.lose = 10;
  faults.duplicate = 20;
  faults.delay = 20;
  faults.straggle = 20;
  faults.kill = 15;
  faults.leave = 5;
  faults.pause = 15;
  faults.partition = 15;
  faults.stay_away = 300;
  faults.spoil = 30;
  faults.disk_refuses = 100;
  faults.disk_hangs = 20;
  faults.disk_unreadable = 300;
  return faults;
}

// Every other seed also strikes servers, so often that training advances only
// from checkpoint to checkpoint.
Faults FaultsOf(uint64_t seed) {
  Faults faults = EverythingGoesWrong();
  if (seed % 2 == 0) return faults;
  faults.kill_server = 6;
  faults.double_server = 3;
  faults.power = 500;
  return faults;
}

absl::Duration HealOf(uint64_t seed) {
  return absl::Seconds(seed % 2 == 0 ? 1 + seed % 7 : 1 + seed % 15);
}

// In memory if possible, because a run syncs hundreds of files. Drawn anew,
// since the process ids of two sandboxes may be the same.
std::string RunFolder(const std::string& name) {
  static const unsigned drawn = std::random_device()();
  const bool shared = std::filesystem::exists("/dev/shm");
  return absl::StrCat(shared ? "/dev/shm" : testing::TempDir(), "/sluice-",
                      absl::Hex(drawn), "-", name);
}

class FaultyClusterTest : public testing::TestWithParam<proto::Policy> {};

TEST_P(FaultyClusterTest, TheGuaranteesHoldWhateverHappensAndTheRunEnds) {
  std::map<std::string, int64_t> all;
  int64_t updates = 0, reads = 0, checkpoints = 0;
  for (uint64_t seed = 1; seed <= kSeedsPerPolicy; ++seed) {
    FaultyCluster cluster(AnyJob(GetParam(), seed), FaultsOf(seed), seed,
                          RunFolder(proto::Policy_Name(GetParam())));
    cluster.Run(HealOf(seed), kEnd);
    ASSERT_EQ(cluster.Violation(), "");
    cluster.counts().ForEach(
        [&](const char* fault, int64_t count) { all[fault] += count; });
    updates += cluster.lineage().updates();
    checkpoints += cluster.lineage().checkpoints();
    reads += cluster.reads();
  }
  // Each fault has struck often, and each way to survive it has been used.
  if (kSeedsPerPolicy < 500) return;
  EXPECT_GT(updates, 30);
  EXPECT_GT(reads, 30);
  EXPECT_GT(checkpoints, 30);
  for (const auto& [fault, count] : all) EXPECT_GT(count, 5) << fault;
}

// Otherwise a printed seed could not be run again.
TEST_P(FaultyClusterTest, OneSeedGivesOneRun) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const CoordinatorOptions job = AnyJob(GetParam(), seed);
    FaultyCluster one(job, FaultsOf(seed), seed, RunFolder("one"));
    one.Run(HealOf(seed), kEnd);
    FaultyCluster again(job, FaultsOf(seed), seed, RunFolder("again"));
    again.Run(HealOf(seed), kEnd);
    EXPECT_EQ(one.counts(), again.counts()) << "seed " << seed;
    EXPECT_EQ(one.reads(), again.reads()) << "seed " << seed;
    EXPECT_EQ(one.lineage().updates(), again.lineage().updates())
        << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Policies, FaultyClusterTest,
                         testing::Values(proto::SYNC, proto::K_SYNC,
                                         proto::K_BATCH_SYNC, proto::ASYNC,
                                         proto::K_ASYNC, proto::K_BATCH_ASYNC),
                         [](const auto& info) {
                           return proto::Policy_Name(info.param);
                         });

}  // namespace
}  // namespace sluice

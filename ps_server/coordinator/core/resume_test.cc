// A run that is stopped at a version and begun again from its snapshot.
#include <cstdint>
#include <ostream>
#include <vector>

#include "gtest/gtest.h"
#include "ps_server/coordinator/testing/driver.h"
#include "ps_server/coordinator/testing/fake_cluster.h"
#include "ps_server/coordinator/testing/jobs.h"
#include "ps_server/coordinator/versions/check_resume_point.h"

namespace sluice {
namespace {

constexpr uint64_t kSeeds = 40;
constexpr int64_t kManySteps = 400000;  // A run takes about 2,000.

// What decides the bits of an update under SYNC.
struct Update {
  int64_t version = 0;
  double learning_rate = 0;
  std::vector<std::pair<int64_t, float>> entries;

  auto operator<=>(const Update&) const = default;
};
void PrintTo(const Update& update, std::ostream* out) {
  *out << "v" << update.version << " at " << update.learning_rate << ":";
  for (const auto& [batch, weight] : update.entries) {
    *out << " " << batch << "*" << weight;
  }
}

// 14 mini-batches an epoch, the last one short; two epochs.
CoordinatorOptions Job(proto::Policy policy, int workers, int k) {
  CoordinatorOptions options = SmallJob(policy, workers, k);
  options.train_samples = 54;
  options.job.mutable_stop()->set_epochs(2);
  options.job.mutable_schedule()->mutable_cosine()->set_epochs(2);
  return options;
}

CoordinatorOptions ResumedAt(CoordinatorOptions options, int64_t version,
                             const TrainingSnapshot& snapshot) {
  options.generation = Generation(2);
  options.resume = ResumePoint{Generation(1), Version(version), snapshot};
  EXPECT_EQ(CheckResumePoint(options), absl::OkStatus());
  return options;
}

void AppendUpdates(const FakeCluster& cluster, std::vector<Update>* updates) {
  EXPECT_EQ(cluster.Violation(), "");
  for (const RecordCommit& commit : cluster.checker().commits()) {
    Update& update = updates->emplace_back();
    update.version = commit.version.value();
    update.learning_rate = commit.learning_rate;
    for (const auto& entry : commit.entries) {
      update.entries.emplace_back(entry.first_batch.value(), entry.weight);
    }
  }
}

// Runs `options` until `version`, and from there with `rest`.
std::vector<Update> ResumedUpdates(const CoordinatorOptions& options,
                                   const CoordinatorOptions& rest,
                                   int64_t version, const FakeFaults& faults,
                                   uint64_t seed) {
  std::vector<Update> updates;
  FakeCluster first(options, faults, seed);
  first.RunUntil(Version(version), kManySteps);
  AppendUpdates(first, &updates);
  // More may have been decided in the same step.
  const int64_t reached = first.State().version.value();
  FakeCluster second(ResumedAt(rest, reached, first.TakeSnapshot()), faults,
                     seed + 1000);
  second.Run(kManySteps);
  AppendUpdates(second, &updates);
  return updates;
}

FakeFaults Faults() {
  FakeFaults faults;
  faults.kill = 5;
  faults.reconnect = 10;
  faults.duplicate = 50;
  return faults;
}

TEST(ResumeTest, SyncMakesTheUpdatesOfTheUndisturbedRunOnAnyCluster) {
  CoordinatorOptions whole = Job(proto::SYNC, 4, 4);
  for (int local_steps : {1, 3}) {
    whole.job.mutable_sync()->set_local_steps(local_steps);
    CoordinatorOptions other = whole;
    other.job.mutable_cluster()->set_workers(3);
    other.job.mutable_cluster()->set_shards(3);
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      std::vector<Update> expected;
      FakeCluster undisturbed(whole, {}, seed);
      undisturbed.Run(kManySteps);
      AppendUpdates(undisturbed, &expected);
      const int64_t last = expected.back().version;
      for (int64_t version = 1; version < last; ++version) {
        ASSERT_EQ(ResumedUpdates(whole, other, version, Faults(), seed),
                  expected)
            << "seed " << seed << ", version " << version;
      }
    }
  }
}

// Every mini-batch once, and versions without a gap.
void ExpectEachBatchOnce(const std::vector<Update>& updates, int64_t blocks,
                         int local_steps) {
  std::vector<int> times(blocks);
  for (size_t i = 0; i < updates.size(); ++i) {
    EXPECT_EQ(updates[i].version, i + 1);
    for (const auto& [batch, weight] : updates[i].entries) {
      ++times[batch / local_steps];
    }
  }
  EXPECT_EQ(times, std::vector<int>(blocks, 1));
}

TEST(ResumeTest, EveryPolicyTakesEachMiniBatchOfTheRestOnce) {
  for (proto::Policy policy : {proto::K_SYNC, proto::K_BATCH_SYNC, proto::ASYNC,
                               proto::K_ASYNC, proto::K_BATCH_ASYNC}) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      const CoordinatorOptions options = Job(policy, 4, 3);
      CoordinatorOptions rest = options;
      rest.job.mutable_cluster()->set_workers(5);
      rest.job.mutable_cluster()->set_shards(1);
      const auto updates =
          ResumedUpdates(options, rest, 1 + seed % 6, Faults(), seed);
      ExpectEachBatchOnce(updates, 28, 1);
      ASSERT_FALSE(HasFailure())
          << proto::Policy_Name(policy) << ", seed " << seed;
    }
  }
}

TEST(ResumeTest, LocalStepsAndPartitionsGoOnWhereTheyWere) {
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    CoordinatorOptions steps = Job(proto::K_BATCH_ASYNC, 4, 2);
    steps.job.mutable_sync()->set_local_steps(3);
    ExpectEachBatchOnce(
        ResumedUpdates(steps, steps, 1 + seed % 4, Faults(), seed), 10, 3);
    CoordinatorOptions parts = Job(proto::K_ASYNC, 4, 2);
    parts.job.mutable_data()->set_sharding(proto::Data::STATIC);
    const BatchGrid grid(parts.train_samples, parts.job.data().batch_size(), 4);
    ExpectEachBatchOnce(
        ResumedUpdates(parts, parts, 1 + seed % 10, Faults(), seed),
        2 * grid.batches_per_epoch(), 1);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

// Hands in `count` gradients one after the other.
void Deliver(Driver& driver, int count) {
  for (int i = 0; i < count; ++i) {
    for (int w = 0; w < 2; ++w) {
      if (!driver.TaskOf(w).has_value()) continue;
      EXPECT_EQ(driver.Deliver(w), absl::OkStatus());
      break;
    }
  }
}

TEST(ResumeTest, WhatTheSummarySaysGoesOn) {
  CoordinatorOptions options = SmallJob(proto::ASYNC, 2, 1);
  options.job.mutable_stop()->set_seconds(3);
  Driver first(options);
  first.Start();
  first.Advance(absl::Seconds(2));
  first.ReportLoss(0.25);
  Deliver(first, 4);
  const JobState before = first.State();

  Driver second(ResumedAt(options, 4, first.TakeSnapshot()));
  const JobState waiting = second.State();
  EXPECT_EQ(waiting.counters.samples_applied, 16);
  EXPECT_EQ(waiting.running, absl::Seconds(2));
  second.Start();
  EXPECT_EQ(second.version(), 4);
  const JobState after = second.State();
  EXPECT_EQ(after.loss, before.loss);
  EXPECT_EQ(after.mean_staleness, before.mean_staleness);
  EXPECT_EQ(after.staleness_histogram, before.staleness_histogram);
  EXPECT_EQ(after.counters.applied, 4);
  EXPECT_EQ(after.generation, Generation(2));
  second.Advance(absl::Milliseconds(900));
  EXPECT_FALSE(second.Finished().has_value());
  second.Advance(absl::Milliseconds(200));
  EXPECT_TRUE(second.Finished().has_value());
}

TEST(ResumeTest, ShardsAreToldWhichCheckpointHoldsTheVersion) {
  const CoordinatorOptions options = SmallJob(proto::SYNC, 2, 2);
  Driver first(options);
  first.Start();
  Deliver(first, 4);
  Driver second(ResumedAt(options, 2, first.TakeSnapshot()));
  second.HoldShard(1);
  second.Start();
  const auto restores = second.Decisions<Restore>();
  ASSERT_EQ(restores.size(), 1);
  EXPECT_EQ(restores[0].generation, Generation(2));
  EXPECT_EQ(restores[0].version, Version(2));
  EXPECT_EQ(restores[0].checkpoint, Generation(1));
  EXPECT_EQ(second.State().waiting_for, "shard 1 to load version 2");
}

TEST(ResumeTest, AnAdaptiveKGoesOnFromItsLoss) {
  CoordinatorOptions options = SmallJob(proto::K_BATCH_SYNC, 2, 1);
  Set(&options,
      "sync { k_schedule { adaptive { max_k: 8 smoothing_updates: 2 } } }");
  options.job.mutable_limits()->set_staged_gradients(10);
  options.train_samples = 400;
  Driver whole(options);
  whole.Start();
  whole.ReportLoss(1);
  Deliver(whole, 2);
  whole.ReportLoss(0.1);
  Deliver(whole, 1);
  const int64_t version = whole.version();
  ASSERT_GT(whole.State().k, 1);
  Driver resumed(ResumedAt(options, version, whole.TakeSnapshot()));
  resumed.Start();
  resumed.ReportLoss(0.1);
  for (int i = 0; i < 12; ++i) {
    EXPECT_EQ(resumed.State().k, whole.State().k);
    EXPECT_EQ(resumed.version(), whole.version());
    Deliver(whole, 1);
    Deliver(resumed, 1);
  }
  EXPECT_GT(resumed.State().k, 2);
}

TEST(ResumeTest, AKByVersionIsThatOfTheVersion) {
  CoordinatorOptions options = SmallJob(proto::K_BATCH_SYNC, 2, 1);
  Set(&options,
      "sync { k_schedule { by_version { change { from_version: 2 k: 3 } } } }");
  options.job.mutable_limits()->set_staged_gradients(5);
  Driver first(options);
  first.Start();
  Deliver(first, 2);
  Driver second(ResumedAt(options, 2, first.TakeSnapshot()));
  EXPECT_EQ(second.State().k, 3);
}

TEST(ResumeTest, WarmUpThatIsOverStaysOver) {
  CoordinatorOptions options = SmallJob(proto::ASYNC, 2, 1);
  options.job.mutable_sync()->set_warm_start_updates(3);
  Driver first(options);
  first.Start();
  Deliver(first, 2);
  Driver during(ResumedAt(options, 2, first.TakeSnapshot()));
  during.Start();
  EXPECT_FALSE(during.TaskOf(1).has_value());
  Deliver(first, 1);
  Driver after(ResumedAt(options, 3, first.TakeSnapshot()));
  after.Start();
  EXPECT_TRUE(after.TaskOf(1).has_value());
}

TEST(ResumeTest, AnEvaluationThatWasDueIsMade) {
  CoordinatorOptions options = SmallJob(proto::ASYNC, 2, 1);
  options.job.mutable_evaluation()->set_enabled(true);
  options.job.mutable_evaluation()->set_every_epochs(8.0 / 40);
  Driver first(options);
  first.Start();
  Deliver(first, 2);  // Evaluates version 2.
  ASSERT_EQ(first.All<SendEvaluate>().size(), 1);
  Driver second(ResumedAt(options, 2, first.TakeSnapshot()));
  second.Start();
  ASSERT_EQ(second.All<SendEvaluate>().size(), 1);
  EXPECT_EQ(second.All<SendEvaluate>()[0].version, Version(2));
}

TEST(ResumeTest, ARunThatReachedItsEndSaysWhichConditionEndedIt) {
  CoordinatorOptions options = SmallJob(proto::SYNC, 2, 2);
  options.resume = ResumePoint{Generation(1), Version(5), {}};
  options.resume->snapshot.schedule.low_water_mark = BlockId(10);
  EXPECT_EQ(CheckResumePoint(options).ToString(),
            "FAILED_PRECONDITION: version 5 is the run's end: 1 epochs; a "
            "larger stop.epochs would let it go on");
  options.job.mutable_stop()->set_epochs(2);
  EXPECT_EQ(CheckResumePoint(options), absl::OkStatus());
  options.job.mutable_stop()->set_updates(5);
  EXPECT_EQ(CheckResumePoint(options).message(),
            "version 5 is the run's end: 5 updates; a larger stop.updates "
            "would let it go on");
  options.job.mutable_stop()->set_updates(6);
  options.job.mutable_stop()->set_seconds(10);
  options.resume->snapshot.running = absl::Seconds(10);
  EXPECT_EQ(CheckResumePoint(options).message(),
            "version 5 is the run's end: 10s; a larger stop.seconds would let "
            "it go on");
}

// The checkpoint of version 1 is decided before what it lacks is left out.
TEST(ResumeTest, WhatNobodyServedIsLeftOutAgainAndCountedOnce) {
  CoordinatorOptions options = SmallJob(proto::SYNC, 2, 2);
  options.job.mutable_data()->set_sharding(proto::Data::STATIC);
  options.job.mutable_sync()->set_on_shortage(proto::SHRINK);
  options.job.mutable_checkpoint()->set_every_updates(1);
  Driver first(options);
  first.Start();
  EXPECT_EQ(first.Deliver(0), absl::OkStatus());
  first.Leave({Role::kWorker, 1});
  first.Stored(0, 1);
  first.Stored(1, 1);
  const auto manifests = first.All<StoreManifest>();
  ASSERT_EQ(manifests.size(), 1);
  EXPECT_EQ(first.State().counters.batches_left_out, 1);

  Driver second(ResumedAt(options, 1, *manifests[0].snapshot));
  EXPECT_EQ(second.State().counters.batches_left_out, 1);
  second.Start();
  const auto said = second.All<Announce>();
  ASSERT_FALSE(said.empty());
  EXPECT_EQ(said[0].text,
            "event=left_out mini_batches=1 reason=\"nobody serves their "
            "partition\"");
  EXPECT_EQ(second.BatchOf(0), 2);
  EXPECT_EQ(second.BatchOf(1), 3);
}

TEST(ResumeTest, AStateThatContradictsItselfOrTheJobIsRefused) {
  CoordinatorOptions options = SmallJob(proto::SYNC, 2, 2);
  options.resume = ResumePoint{Generation(1), Version(5), {}};
  TrainingSnapshot& snapshot = options.resume->snapshot;
  snapshot.schedule = {BlockId(2), {BlockId(4), BlockId(3)}};
  EXPECT_EQ(CheckResumePoint(options).ToString(),
            "INVALID_ARGUMENT: the checkpoint's state of the run: exception 3, "
            "expected 5 or more");
  snapshot.schedule = {BlockId(2), {BlockId(10)}};
  EXPECT_EQ(CheckResumePoint(options).message(),
            "the checkpoint's state of the run: mini-batches of 11 tasks are "
            "done, the job has 10");
  snapshot.schedule = {BlockId(2), {}};
  snapshot.round = BlockId(11);
  EXPECT_EQ(CheckResumePoint(options).message(),
            "the checkpoint's state of the run: the next update begins with "
            "task 11, the job has 10");
  snapshot.round = BlockId(2);
  snapshot.totals.staleness_histogram.clear();
  EXPECT_EQ(CheckResumePoint(options).message(),
            "the checkpoint's state of the run: a histogram of 0 bins, "
            "expected 33");
}

}  // namespace
}  // namespace sluice

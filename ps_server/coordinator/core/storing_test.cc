// Which versions are stored as checkpoints, and what becomes of that.
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/testing/driver.h"
#include "ps_server/coordinator/testing/jobs.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

// One gradient an update, ten updates; two shards.
CoordinatorOptions Every(int64_t updates, int keep = 2) {
  CoordinatorOptions job = SmallJob(proto::ASYNC, 2, 1);
  job.job.mutable_checkpoint()->set_every_updates(updates);
  job.job.mutable_checkpoint()->set_keep(keep);
  return job;
}

class StoringTest : public ::testing::Test {
 protected:
  void Begin(const CoordinatorOptions& job) {
    run_.emplace(job);
    run_->Start();
  }
  void Update(int times = 1) {
    for (int i = 0; i < times; ++i) {
      ASSERT_TRUE(run_->Deliver(run_->TaskOf(0).has_value() ? 0 : 1).ok());
    }
  }
  void Parts(int64_t version) {
    run_->Stored(0, version);
    run_->Stored(1, version);
  }
  void Write(int64_t version) {
    Parts(version);
    run_->ManifestWritten(version);
  }
  template <typename T>
  std::vector<int64_t> Versions() const {
    std::vector<int64_t> versions;
    for (const T& t : run_->All<T>()) versions.push_back(t.version.value());
    return versions;
  }
  std::vector<int64_t> Stores() const {
    std::vector<int64_t> versions;
    for (const Store& store : run_->Decisions<Store>()) {
      versions.push_back(store.version.value());
    }
    return versions;
  }
  // Announcements of a level that begin with `event`.
  std::vector<std::string> Said(Announce::Level level,
                                const std::string& event) const {
    std::vector<std::string> said;
    for (const Announce& announce : run_->All<Announce>()) {
      if (announce.level == level && announce.text.starts_with(event + " ")) {
        said.push_back(announce.text);
      }
    }
    return said;
  }
  CheckpointState State() const { return *run_->State().checkpoints; }

  std::optional<Driver> run_;
};

// ---- Somebody asks for one ----

TEST_F(StoringTest, WhoAsksForACheckpointGetsTheNextVersionAndOnlyThat) {
  Begin(Every(100));
  Update(2);
  EXPECT_EQ(*run_->RequestCheckpoint(), Version(3));
  EXPECT_EQ(*run_->RequestCheckpoint(), Version(3)) << "a repeat";
  EXPECT_THAT(Stores(), IsEmpty());
  Update(3);
  EXPECT_THAT(Stores(), ElementsAre(3));
  Write(3);
  EXPECT_EQ(State().newest, Version(3));
}

TEST_F(StoringTest, WhoAsksWhileOneIsWrittenIsToldForWhomItWaits) {
  Begin(Every(1));
  Update();
  run_->Stored(0, 1);
  const absl::Status refused = run_->RequestCheckpoint().status();
  EXPECT_EQ(refused.ToString(),
            "UNAVAILABLE: version 1 is still being written: waiting for shard "
            "1");
  run_->Stored(1, 1);
  EXPECT_FALSE(run_->RequestCheckpoint().ok()) << "there is no manifest yet";
  run_->ManifestWritten(1);
  EXPECT_TRUE(run_->RequestCheckpoint().ok());
}

TEST_F(StoringTest, WhoAsksInAJobWithoutCheckpointsIsToldSo) {
  Begin(SmallJob(proto::ASYNC, 2, 1));
  const absl::Status refused = run_->RequestCheckpoint().status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("checkpoint: the job has none"));
}

TEST_F(StoringTest, WhoAsksBeforeTrainingOrAfterItIsToldSo) {
  run_.emplace(Every(100));
  EXPECT_EQ(run_->RequestCheckpoint().status().ToString(),
            "FAILED_PRECONDITION: no training is under way: it has not begun");
  run_->Start();
  run_->RequestStop();
  EXPECT_EQ(run_->RequestCheckpoint().status().ToString(),
            "FAILED_PRECONDITION: no training is under way: it is over");
}

TEST_F(StoringTest, WhoAsksInARecoveryMayAskAgain) {
  CoordinatorOptions job = Every(100);
  job.recovery.possible = true;
  Begin(job);
  run_->Silence(Peer{Role::kShard, 1});
  run_->Advance(absl::Seconds(6));
  ASSERT_EQ(run_->State().phase, Phase::kRecovering);
  EXPECT_EQ(run_->RequestCheckpoint().status().ToString(),
            "UNAVAILABLE: a generation of the run is over, and the next one "
            "has not begun");
}

TEST_F(StoringTest, ADueVersionIsHeldRightAfterItsCommit) {
  Begin(Every(2));
  Update(3);
  EXPECT_THAT(Stores(), ElementsAre(2));
  const auto decisions = run_->All<SendDecision>();
  for (size_t i = 0; i < decisions.size(); ++i) {
    if (!std::holds_alternative<Store>(decisions[i].decision.what)) continue;
    const auto* commit = std::get_if<Commit>(&decisions[i - 1].decision.what);
    ASSERT_NE(commit, nullptr);
    EXPECT_EQ(commit->version, Version(2));
  }
  EXPECT_EQ(State().writing, Version(2));
}

TEST_F(StoringTest, AJobWithoutCheckpointsStoresNothing) {
  Begin(SmallJob(proto::ASYNC, 2, 1));
  Update(10);
  EXPECT_THAT(Stores(), IsEmpty());
  EXPECT_TRUE(run_->Finished().has_value());
  EXPECT_FALSE(run_->State().checkpoints.has_value());
}

TEST_F(StoringTest, TheManifestWaitsForEveryPart) {
  Begin(Every(2));
  Update(2);
  run_->Stored(1, 2);
  run_->Stored(1, 2);
  EXPECT_THAT(Versions<StoreManifest>(), IsEmpty());
  EXPECT_THAT(run_->All<RemoveStored>(), IsEmpty());
  run_->Stored(0, 2);
  ASSERT_THAT(Versions<StoreManifest>(), ElementsAre(2));
  const StoreManifest manifest = run_->All<StoreManifest>()[0];
  EXPECT_EQ(manifest.generation, Generation(1));
  ASSERT_THAT(manifest.parts, SizeIs(2));
  EXPECT_EQ(manifest.parts[0].file, "shard-0");
  EXPECT_EQ(manifest.parts[1].file, "shard-1");
  EXPECT_FALSE(State().newest.has_value());
  run_->ManifestWritten(2);
  EXPECT_EQ(State().newest, Version(2));
  EXPECT_FALSE(State().writing.has_value());
}

TEST_F(StoringTest, WhatIsStoredWithAVersionIsAsOfThatVersion) {
  Begin(Every(2));
  Update(5);
  Parts(2);
  const StoreManifest manifest = run_->All<StoreManifest>().at(0);
  EXPECT_EQ(manifest.snapshot->totals.counters.samples_applied, 2 * 4);
  EXPECT_EQ(run_->TakeSnapshot().totals.counters.samples_applied, 5 * 4);
}

TEST_F(StoringTest, TheLossOfTheVersionCountsForTheKThatIsStored) {
  CoordinatorOptions job = Every(1);
  Set(&job,
      "sync { policy: K_BATCH_SYNC k: 1 "
      "k_schedule { adaptive { max_k: 8 smoothing_updates: 1 } } }");
  job.job.mutable_limits()->set_staged_gradients(10);
  Begin(job);
  run_->ReportLoss(1);
  Update();
  Write(1);
  run_->ReportLoss(0.1);
  Update();
  Write(2);
  ASSERT_GT(run_->State().k, 1);
  for (const StoreManifest& manifest : run_->All<StoreManifest>()) {
    EXPECT_EQ(manifest.snapshot->k.losses, manifest.version.value());
  }
  EXPECT_EQ(run_->All<StoreManifest>().back().snapshot->k.k, run_->State().k);
}

TEST_F(StoringTest, AnOldOneGoesOnlyWhenANewerOneIsWhole) {
  Begin(Every(2, /*keep=*/1));
  Update(2);
  Write(2);
  Update(2);
  Parts(4);
  EXPECT_THAT(Versions<RemoveStored>(), IsEmpty());
  run_->ManifestWritten(4);
  EXPECT_THAT(Versions<RemoveStored>(), ElementsAre(2));
  EXPECT_THAT(Said(Announce::Level::kInfo, "event=checkpoint"), SizeIs(2));
  // What nobody waits for, and is there, stays.
  run_->Stored(1, 4);
  run_->ManifestWritten(4);
  EXPECT_THAT(Versions<RemoveStored>(), ElementsAre(2));
}

TEST_F(StoringTest, OneThatTakesLongerThanItsPeriodIsSaidToBeLateOnce) {
  Begin(Every(2));
  Update(7);
  EXPECT_THAT(Stores(), ElementsAre(2));
  EXPECT_THAT(Said(Announce::Level::kWarning, "event=checkpoint_late"),
              ElementsAre(HasSubstr("version=4 reason=\"version 2 is still "
                                    "being written: waiting for shard 0, shard "
                                    "1\"")));
  EXPECT_EQ(State().counters.late, 2);
  EXPECT_EQ(run_->version(), 7);
  Write(2);
  Update(1);
  EXPECT_THAT(Stores(), ElementsAre(2, 8));
}

TEST_F(StoringTest, APartThatCannotBeWrittenGivesItUpAndTrainingGoesOn) {
  Begin(Every(2));
  Update(2);
  run_->Stored(0, 2, "No space left on device");
  // Shard 1 may still be writing to its folder.
  EXPECT_THAT(Versions<RemoveStored>(), IsEmpty());
  run_->Stored(1, 2);
  EXPECT_THAT(Versions<RemoveStored>(), ElementsAre(2));
  EXPECT_THAT(Versions<StoreManifest>(), IsEmpty());
  EXPECT_THAT(Said(Announce::Level::kError, "event=checkpoint_failed"),
              ElementsAre(HasSubstr("shard 0: No space left on device")));
  EXPECT_EQ(State().counters.failed, 1);
  EXPECT_EQ(State().last_error, "version 2: shard 0: No space left on device");
  Update(2);
  EXPECT_EQ(run_->State().phase, Phase::kRunning);
  EXPECT_THAT(Stores(), ElementsAre(2, 4));
}

TEST_F(StoringTest, AManifestThatCannotBeWrittenGivesItUp) {
  Begin(Every(2));
  Update(2);
  Parts(2);
  run_->ManifestWritten(2, "manifest: write: No space left on device");
  EXPECT_THAT(Versions<RemoveStored>(), ElementsAre(2));
  EXPECT_EQ(State().counters.failed, 1);
  EXPECT_FALSE(State().newest.has_value());
}

TEST_F(StoringTest, APartThatDoesNotComeInTimeGivesItUpAndIsNamed) {
  Begin(Every(2));
  Update(2);
  run_->Stored(0, 2);
  run_->Advance(absl::Seconds(599));
  EXPECT_EQ(State().counters.failed, 0);
  // The tasks of the workers are overdue, too, and go out again.
  run_->Advance(absl::Seconds(2));
  EXPECT_EQ(State().last_error, "version 2: waited 10m for shard 1");
  EXPECT_EQ(run_->State().phase, Phase::kRunning);
  EXPECT_THAT(Versions<RemoveStored>(), ElementsAre(2));
  // What it has written meanwhile would lie there for good.
  run_->Stored(1, 2);
  EXPECT_THAT(Versions<RemoveStored>(), ElementsAre(2, 2));
}

TEST_F(StoringTest, AManifestThatDoesNotComeInTimeGivesItUp) {
  Begin(Every(2));
  Update(2);
  Parts(2);
  run_->Advance(absl::Seconds(601));
  EXPECT_THAT(State().last_error, HasSubstr("the manifest"));
  run_->ManifestWritten(2);
  EXPECT_FALSE(State().newest.has_value());
  EXPECT_THAT(Versions<RemoveStored>(), ElementsAre(2, 2));
}

TEST_F(StoringTest, ByTimeTheFirstUpdateAfterAPeriodIsStored) {
  CoordinatorOptions job = Every(0);
  job.job.mutable_checkpoint()->set_every_s(10);
  Begin(job);
  run_->Advance(absl::Seconds(9));
  Update();
  EXPECT_THAT(Stores(), IsEmpty());
  run_->Advance(absl::Seconds(1));
  Update(2);
  EXPECT_THAT(Stores(), ElementsAre(2));
}

TEST_F(StoringTest, TheLastVersionIsStoredBeforeTheRunEnds) {
  Begin(Every(4));
  Update(4);
  Write(4);
  Update(4);
  Update(2);
  EXPECT_THAT(Stores(), ElementsAre(4, 8));
  // One at a time, also now.
  Write(8);
  EXPECT_THAT(Stores(), ElementsAre(4, 8, 10));
  EXPECT_THAT(run_->State().waiting_for, HasSubstr("to store version 10"));
  EXPECT_FALSE(run_->Finished().has_value());
  Write(10);
  EXPECT_EQ(run_->Finished()->failure, "");
  EXPECT_EQ(State().newest, Version(10));
}

TEST_F(StoringTest, TheLastVersionIsStoredAlsoWhereItsEvaluationFails) {
  CoordinatorOptions job = Every(5);
  job.job.mutable_evaluation()->set_enabled(true);
  Begin(job);
  Update(10);
  Write(5);
  run_->Evaluated(10, 0, "disk full");
  EXPECT_FALSE(run_->Finished().has_value());
  Write(10);
  EXPECT_EQ(run_->Finished()->failure,
            "evaluator: evaluation of version 10: disk full");
  EXPECT_EQ(State().newest, Version(10));
}

TEST_F(StoringTest, ALastVersionThatIsStoredAlreadyIsNotStoredAgain) {
  Begin(Every(5));
  Update(5);
  Write(5);
  Update(5);
  EXPECT_FALSE(run_->Finished().has_value());
  Write(10);
  EXPECT_TRUE(run_->Finished().has_value());
  EXPECT_THAT(Stores(), ElementsAre(5, 10));
}

// Once, whether it was due or not: its folder may be being removed.
TEST_F(StoringTest, ALastVersionThatCannotBeStoredDoesNotFailTheRun) {
  for (const int64_t every : {10, 100}) {
    Begin(Every(every));
    Update(10);
    EXPECT_THAT(Stores(), ElementsAre(10));
    run_->Stored(0, 10, "No space left on device");
    run_->Stored(1, 10);
    EXPECT_THAT(Stores(), ElementsAre(10));
    ASSERT_TRUE(run_->Finished().has_value());
    EXPECT_EQ(run_->Finished()->failure, "");
    EXPECT_EQ(State().counters.failed, 1);
  }
}

TEST_F(StoringTest, ARunThatIsStoppedBeforeItsFirstUpdateStoresNothing) {
  Begin(Every(2));
  run_->RequestStop();
  EXPECT_TRUE(run_->Finished().has_value());
  EXPECT_THAT(Stores(), IsEmpty());
}

}  // namespace
}  // namespace sluice

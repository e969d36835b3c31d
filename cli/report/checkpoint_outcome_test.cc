#include "cli/report/checkpoint_outcome.h"

#include <optional>
#include <string>

#include "gtest/gtest.h"

namespace sluice {
namespace {

// A run in its second generation, which goes on from version 30; its newest
// checkpoint is of version 40.
proto::JobStatus Running() {
  proto::JobStatus status;
  status.set_phase("running");
  status.set_generation(2);
  status.set_version(46);
  status.mutable_recovery()->set_restored_version(30);
  status.mutable_checkpoint()->set_newest_version(40);
  (*status.mutable_counters())["checkpoints.failed"] = 1;
  return status;
}

// Of the checkpoint of version 47.
std::optional<absl::Status> Outcome(const proto::JobStatus& now) {
  return CheckpointOutcome(47, Running(), now);
}

TEST(CheckpointOutcomeTest, NothingIsDecidedWhileAnOlderOneIsTheNewest) {
  proto::JobStatus now = Running();
  EXPECT_EQ(Outcome(now), std::nullopt);
  now.mutable_checkpoint()->set_newest_version(46);
  EXPECT_EQ(Outcome(now), std::nullopt);
  now.mutable_checkpoint()->clear_newest_version();
  EXPECT_EQ(CheckpointOutcome(0, Running(), now), std::nullopt);
}

TEST(CheckpointOutcomeTest, ItIsWrittenWhenItOrALaterOneIsTheNewest) {
  for (const int64_t newest : {47, 48}) {
    proto::JobStatus now = Running();
    now.mutable_checkpoint()->set_newest_version(newest);
    EXPECT_EQ(Outcome(now), absl::OkStatus()) << newest;
    now.set_phase("finished");  // The run's end takes it from nobody.
    EXPECT_EQ(Outcome(now), absl::OkStatus()) << newest;
  }
}

TEST(CheckpointOutcomeTest, OneThatFailedSaysWhy) {
  proto::JobStatus now = Running();
  (*now.mutable_counters())["checkpoints.failed"] = 2;
  now.mutable_checkpoint()->set_last_error("shard 1: disk full");
  EXPECT_EQ(Outcome(now), absl::UnavailableError("shard 1: disk full"));
}

TEST(CheckpointOutcomeTest, ARecoveryGoesOnFromItOrHasLostIt) {
  proto::JobStatus now = Running();
  now.set_generation(3);
  now.clear_checkpoint();
  now.mutable_recovery()->set_restored_version(47);
  EXPECT_EQ(Outcome(now), absl::OkStatus());
  now.mutable_recovery()->set_restored_version(40);
  EXPECT_EQ(Outcome(now),
            absl::AbortedError(
                "the shards or the coordinator were lost before version 47 was "
                "written; generation 3 goes on from version 40"));
}

TEST(CheckpointOutcomeTest, ARunThatEndedBeforeItSaysHow) {
  for (const std::string phase : {"finished", "failed"}) {
    proto::JobStatus now = Running();
    now.set_phase(phase);
    now.set_message("stop.updates");
    EXPECT_EQ(Outcome(now),
              absl::UnavailableError("the run ended with version 46 before "
                                     "version 47 was written: stop.updates"));
  }
}

}  // namespace
}  // namespace sluice

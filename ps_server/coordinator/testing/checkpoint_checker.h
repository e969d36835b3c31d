#ifndef SLUICE_PS_SERVER_COORDINATOR_TESTING_CHECKPOINT_CHECKER_H_
#define SLUICE_PS_SERVER_COORDINATOR_TESTING_CHECKPOINT_CHECKER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "ps_server/coordinator/core/coordinator_options.h"
#include "ps_server/coordinator/core/job_state.h"
#include "ps_server/coordinator/core/training_snapshot.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// Watches what a coordinator says of checkpoints, and holds it against a model
// of its own:
//
//   - a version that is due is stored, at once, unless another is being
//     written; one is written at a time;
//   - a manifest is made when every shard has stored its part, of those parts,
//     once;
//   - its snapshot says which mini-batches were done, how gradients had ended
//     and where SYNC goes on, as of that version;
//   - as many stay as the job says; what was given up, and what comes late of
//     it, is removed, and nothing else is;
//   - the run's last version is stored, and waited for.
//
// InvariantChecker passes on what it sees. Keeps the first violation.
//
// Not thread-safe: call from one thread.
class CheckpointChecker {
 public:
  explicit CheckpointChecker(const CoordinatorOptions& options);

  void See(const RecordTask& action);
  void See(const RecordEnd& action);
  void See(const RecordCommit& action);
  // Two decisions; `decided` is the newest version.
  void See(const Commit& commit);
  void See(const Store& store, Version decided);
  void See(const StoreManifest& action);
  void See(const RemoveStored& action);
  // Call when all that follows from one event has been seen.
  void CheckSettled();

  // What the coordinator is about to hear: a shard's part, the answer to a
  // manifest.
  void Stored(int64_t shard, Version version, const StoredPart& part);
  void ManifestWritten(Version version, const std::string& error);

  // Call when the run has come to its end.
  void CheckEnd(Version decided);

  // What the snapshot of a version that was stored must hold.
  struct Expected {
    BatchSchedule::Snapshot schedule;
    // Under SYNC, and unless it was stored only because the run ends.
    std::optional<BlockId> round;
    int64_t samples_applied = 0;
    GradientCounts gradients;
  };
  // Null for a version that was not stored.
  const Expected* ExpectedAt(Version version) const;

  const std::string& violation() const { return violation_; }
  int64_t written() const { return written_; }
  int64_t failed() const { return failed_; }
  int64_t overdue() const { return overdue_; }  // Among the failed.
  int64_t late_parts() const { return late_parts_; }

 private:
  struct Running {
    Version version;
    std::vector<std::optional<StoredPart>> parts;  // By shard.
    bool manifest = false;                         // It has been asked for.
  };

  void Expect(bool holds, const std::string& rule);
  void Done(BlockId block);
  void Count(Outcome outcome);
  bool Keeps(Version version) const;
  // The running one has come to nothing: it is to be removed.
  void GiveUp();
  void CheckSnapshot(const StoreManifest& action);

  const CoordinatorOptions options_;
  const int64_t blocks_;  // Of the run.

  // The model of the schedule.
  BlockId low_water_mark_;
  std::set<BlockId> done_above_;
  std::map<GradientKey, BlockId> block_of_;
  std::map<BlockId, int> rejections_;
  BlockId round_;  // Under SYNC, the first block of the next version.
  bool just_committed_ = false;
  int64_t samples_applied_ = 0;
  GradientCounts gradients_;
  GradientCounts gradients_of_version_;  // At the newest commit.
  std::map<Version, Expected> expected_;

  std::optional<Version> due_;
  std::optional<Running> running_;
  Version last_begun_;
  std::deque<std::pair<Generation, Version>> kept_;  // Oldest first.
  // Of earlier generations; they go with the next one that is whole.
  std::set<std::pair<Generation, Version>> damaged_;
  std::set<std::pair<Generation, Version>> to_remove_;
  int64_t written_ = 0;
  int64_t failed_ = 0;
  int64_t overdue_ = 0;
  int64_t late_parts_ = 0;
  std::string violation_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_TESTING_CHECKPOINT_CHECKER_H_

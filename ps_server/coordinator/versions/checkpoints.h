#ifndef SLUICE_PS_SERVER_COORDINATOR_VERSIONS_CHECKPOINTS_H_
#define SLUICE_PS_SERVER_COORDINATOR_VERSIONS_CHECKPOINTS_H_

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/ids.h"
#include "proto/job.pb.h"
#include "ps_server/coordinator/core/coordinator_options.h"
#include "ps_server/coordinator/core/counters.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// Whether versions are to be stored.
inline bool StoresVersions(const proto::Job& job) {
  return job.checkpoint().every_updates() > 0 || job.checkpoint().every_s() > 0;
}

// When a version is to be stored, whose part of it is still missing, and which
// older ones are to go. One at a time is written: one that falls due before
// that has ended is left out, and said to be late. `now` is awake time
// (AwakeClock) throughout.
//
// Not thread-safe: call from the coordinator.
class Checkpoints {
 public:
  // `options` are resolved; those of a job without checkpoints are empty. The
  // first one by time falls due a period after `now`.
  Checkpoints(const proto::Checkpoint& options, EarlierCheckpoints earlier,
              Generation generation, int shards, absl::Time now);

  enum class Due {
    kNo,
    kStart,  // The shards are to hold this version and write it.
    kLate,   // They would be, but `running()` is not written yet.
  };
  // `version` is being decided. kStart makes it the running one.
  Due Decided(Version version, absl::Time now);
  // The next version is due, whichever it is.
  void Request() { requested_ = true; }
  // One that is due for another reason. REQUIRES: none is running.
  void Start(Version version, absl::Time now);

  struct Running {
    Version version;
    absl::Time since;
    std::vector<std::optional<StoredPart>> parts;  // By shard.
    int64_t late = 0;  // How many fell due in the meantime.
  };
  const std::optional<Running>& running() const { return running_; }
  // The last one that was begun; none has been: 0.
  Version last_begun() const { return last_begun_; }
  // The shards that have not reported their part of `running()`.
  std::vector<ShardId> Missing() const;

  // A shard's part is on the disk, or could not be written. True when it was
  // the last one missing: then `running()` has them all, for Written or Failed.
  // A repeat, or a version that is not running, changes nothing: false.
  // REQUIRES: the job has that shard.
  bool Reported(ShardId shard, Version version, StoredPart part);
  // "shard 1: ..." of the first part that could not be written; else empty.
  std::string Error() const;

  // The manifest of `running()` is on the disk: returns which others are to be
  // removed, those of earlier generations too. First, once, the damaged ones,
  // of which none counts as kept; then, the oldest first, what is too many. Of
  // an earlier generation one that may be whole stays unless it is older than
  // one that was read whole: whoever could not read it must not remove it.
  // REQUIRES: all parts were reported, none with an error.
  std::vector<RemoveStored> Written();
  // The running one is given up; what there is of it is to be removed.
  // REQUIRES: one is running.
  void Failed(const std::string& why);

  // Whether it is on the disk, whole, and to stay.
  bool Keeps(Version version) const;
  std::optional<Version> newest() const;  // Written, of this generation.
  // The oldest that stays, of all generations; generation 0: there is none.
  std::pair<Generation, Version> oldest() const;
  const CheckpointCounters& counters() const { return counters_; }
  // Why the last one failed; empty: none has.
  const std::string& last_error() const { return last_error_; }

 private:
  using Id = std::pair<Generation, Version>;
  bool MayGo(const Id& id) const;
  bool Damaged(const Id& id) const;

  // Constant after construction.
  const proto::Checkpoint options_;
  const EarlierCheckpoints earlier_;
  const Generation generation_;
  const int shards_;

  absl::Time next_;         // By time.
  bool requested_ = false;  // By somebody.
  std::optional<Running> running_;
  Version last_begun_;
  std::deque<Id> kept_;      // Oldest first; of those there, all that may go.
  std::vector<Id> damaged_;  // Oldest first; they go once another is whole.
  CheckpointCounters counters_;
  std::string last_error_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_VERSIONS_CHECKPOINTS_H_

#ifndef SLUICE_CLI_CHAOS_DIRECTOR_H_
#define SLUICE_CLI_CHAOS_DIRECTOR_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "cli/chaos/schedule.h"
#include "proto/coordinator.pb.h"

namespace sluice {

// One look at a run, from outside.
struct RunLook {
  absl::Time now;
  // The processes that there are, stopped or not, by name: "worker-2". They
  // were looked at before `status` was asked for.
  std::map<std::string, pid_t> running;
  // Null: the coordinator does not answer.
  const proto::JobStatus* status = nullptr;
};

// What to do to a run now, in this order.
struct Disturbance {
  struct Signal {
    std::string name;
    int number = 0;  // SIGKILL
  };
  struct Storage {
    int server = 0;
    StorageFault fault = StorageFault::kNone;  // kNone: it is healed.
  };

  std::vector<std::string> say;  // Lines for the user.
  std::vector<std::string> heal;
  std::vector<std::string> cut;  // Off the network, until healed.
  std::vector<Signal> signals;
  std::vector<Storage> storage;
  std::string failure;  // Not empty: the run is given up.
};

struct DirectorOptions {
  std::vector<Act> acts;
  absl::Duration lease;
  // A run hangs if it makes no update for so long, while nobody is stopped or
  // cut off. It also hangs if it reaches no new version for three times as
  // long: then it goes from recovery to recovery.
  absl::Duration patience;
};

// What became of an act.
struct ActDone {
  absl::Duration after;  // Since the first look at the run.
  int64_t generation = 0;
  int64_t version = 0;
};

// Decides when to do the acts of a schedule, and whether the run hangs. An act
// is done when it is due, the part's process exists, and the coordinator sees
// the part alive. The launcher starts again whatever ends. A run that hangs is
// given up, with the name of the part that it waits for. Pure: holds no process
// and no clock.
//
// Not thread-safe: call from one thread.
class Director {
 public:
  explicit Director(DirectorOptions options);

  Disturbance OnLook(const RunLook& look);

  // What became of the acts that were done: the first ones of the schedule.
  const std::vector<ActDone>& done() const { return done_; }
  // Processes that ended while the run was on, and that no act had killed.
  int unasked_ends() const { return unasked_ends_; }
  // The longest time between two updates.
  absl::Duration longest_wait() const { return longest_wait_; }
  // The generation that began at an older version than the newest whole
  // checkpoint, and that version; empty if there is none.
  const std::string& rolled_back() const { return rolled_back_; }
  // Why the run hangs; empty if it does not.
  const std::string& hang() const { return hang_; }

 private:
  // An act that lasts, until it ends.
  struct Spell {
    ActKind kind = ActKind::kStop;
    absl::Time until;
    int number = 0;  // Of the part.
  };
  // The newest checkpoint when the last act was done on a server.
  struct Mark {
    int64_t generation = 0;
    int64_t newest = -1;  // Version; -1: none yet in this generation.
  };

  void EndSpells(absl::Time now, Disturbance* out);
  void WatchParts(const RunLook& look);
  void Watch(const RunLook& look);
  void WatchCheckpoints(const proto::JobStatus& status);
  void Advance(absl::Time now);
  std::string Hang(const RunLook& look) const;
  bool Due(const Act& act, const RunLook& look) const;
  bool CheckpointSinceMark(const proto::JobStatus& status) const;
  void Do(const Act& act, const RunLook& look, Disturbance* out);
  std::string Stamp(absl::Time now) const;

  // Constant after construction.
  const DirectorOptions options_;

  std::vector<ActDone> done_;
  std::map<std::string, Spell> spells_;  // By part.
  std::map<std::string, pid_t> seen_;    // By part; an end is not yet judged.
  std::set<std::string> killed_;         // That have not ended yet.
  std::optional<Mark> mark_;
  int unasked_ends_ = 0;

  std::optional<absl::Time> begun_;
  std::string phase_;
  std::set<std::string> phases_;  // That have been.
  int64_t generation_ = 0;
  int64_t version_ = 0;  // Of the generation.
  int64_t best_ = 0;     // Of all.
  absl::Time moved_;     // The last update or new phase, or a spell's end.
  absl::Time advanced_;  // The same for `best_`.
  absl::Time updated_;   // As moved_, without phases.
  absl::Duration longest_wait_;
  int64_t whole_ = 0;  // Newest version known to be in a whole checkpoint.
  std::string rolled_back_;
  std::string hang_;
};

}  // namespace sluice

#endif  // SLUICE_CLI_CHAOS_DIRECTOR_H_

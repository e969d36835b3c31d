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

// What is to be done to a run, in this order.
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
  // So long without an update, unless somebody is stopped or cut off, is a
  // hang; three times as long without a version that was not there before is
  // one too: recoveries that lead nowhere.
  absl::Duration patience;
};

// What became of an act.
struct ActDone {
  absl::Duration after;  // Of the run's first look.
  int64_t generation = 0;
  int64_t version = 0;
};

// Carries out a schedule on a run by what it sees of the run's progress: each
// act when it is due and the part is there, as the coordinator sees it too.
// Whoever ends is started again by its launcher. Ends a run that hangs, and
// names whom it waits for. Pure: holds no process, no clock.
// Not thread-safe: call from one thread.
class Director {
 public:
  explicit Director(DirectorOptions options);

  Disturbance OnLook(const RunLook& look);

  // Of the first acts of the schedule, in order.
  const std::vector<ActDone>& done() const { return done_; }
  // Processes that ended while the run was on, and that no act had killed.
  int unasked_ends() const { return unasked_ends_; }
  // The longest time between two updates.
  absl::Duration longest_wait() const { return longest_wait_; }
  // Which generation went back behind a version of which a whole checkpoint
  // was there; empty when none did.
  const std::string& rolled_back() const { return rolled_back_; }
  // What hung; empty when nothing did.
  const std::string& hang() const { return hang_; }

 private:
  // What lasts, and will end.
  struct Spell {
    ActKind kind = ActKind::kStop;
    absl::Time until;
    int number = 0;  // Of the part.
  };
  // The newest checkpoint when an act was done on a server.
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
  absl::Time moved_;     // When an update was seen, or a spell ends.
  absl::Time advanced_;  // The same for `best_`.
  absl::Time updated_;   // As moved_, without regard to phases.
  absl::Duration longest_wait_;
  int64_t whole_ = 0;  // Newest version known to be in a whole checkpoint.
  std::string rolled_back_;
  std::string hang_;
};

}  // namespace sluice

#endif  // SLUICE_CLI_CHAOS_DIRECTOR_H_

#ifndef SLUICE_CLI_CHAOS_SCHEDULE_H_
#define SLUICE_CLI_CHAOS_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/launch/supervision.h"

// What is done to a run to see whether it survives: a pure function of a seed.
namespace sluice {

enum class ActKind {
  kKill,  // SIGKILL: it is gone at once, and says nothing.
  kStop,  // SIGSTOP, and later SIGCONT: it is silent, and then goes on.
  kCut,   // Its network: it goes on, and nothing comes or leaves, for a time.
  kStorage,  // What it reads and writes fails or waits, for a time.
};

// What is wrong with the run folder, as one server sees it.
enum class StorageFault {
  kNone,
  kUnreadable,  // Reading checkpoints is an error (EIO).
  kFull,        // Writing is an error (ENOSPC).
  kStalled,     // Reading and writing wait.
};

// One disturbance. Acts happen in their order, each when it is due.
struct Act {
  ActKind kind = ActKind::kKill;
  Part part = Part::kWorker;
  int number = 0;  // Of the worker or shard.
  // Due once the coordinator has decided this version, and, if
  // `after_checkpoint`, since the last act on a server a checkpoint has become
  // whole that came after it.
  int64_t at_version = 0;
  bool after_checkpoint = false;
  // But for kKill: how long, in leases (limits.lease_s).
  double leases = 0;
  StorageFault fault = StorageFault::kNone;  // Of kStorage, and never kNone.

  bool operator==(const Act&) const = default;
};

// A ps_server, so that its loss may send the job back to a checkpoint.
bool OnServer(const Act& act);

// "kill", "stop", "cut", "storage".
std::string NameOfKind(ActKind kind);
// "unreadable", "full", "stalled".
std::string NameOfFault(StorageFault fault);
// "stop ps_server-1 for 0.4 leases".
std::string Describe(const Act& act);
// The same with when: "version 40, after a checkpoint: kill ps_server-1".
std::string DescribeWithTime(const Act& act);

struct ChaosPlan {
  int kills = 0;
  int stops = 0;
  int cuts = 0;
  int storage_faults = 0;  // 0 without `servers`: only they use the folder.
  int workers = 1;
  int shards = 1;
  bool evaluator = false;
  bool servers = true;  // Whether shards and coordinator are disturbed, too.
  int64_t updates = 0;  // That the undisturbed run makes.
  int64_t checkpoint_every = 1;  // Updates.
};

// Draws what is done, to whom and when. Each kind of act goes round workers,
// shards and the coordinator, with one evaluator in ten; whom and in which
// order is drawn, as are the versions, spread over the run. Faults of the
// storage go round shards and the coordinator, and each is in turn unreadable,
// full and stalled. Acts on workers go round them, since one waits until its
// worker is back. An act on a server is at least two checkpoints' distance
// after the one before it. Half of what lasts is well below the lease, half
// well above it.
//
// kInvalidArgument: the acts do not fit into the run; says what would.
absl::StatusOr<std::vector<Act>> DrawSchedule(uint64_t seed,
                                              const ChaosPlan& plan);

}  // namespace sluice

#endif  // SLUICE_CLI_CHAOS_SCHEDULE_H_

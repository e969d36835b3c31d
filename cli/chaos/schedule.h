#ifndef SLUICE_CLI_CHAOS_SCHEDULE_H_
#define SLUICE_CLI_CHAOS_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/launch/supervision.h"

// The schedule of disturbances of a run: a pure function of a seed.
namespace sluice {

enum class ActKind {
  kKill,     // SIGKILL: it is gone at once.
  kStop,     // SIGSTOP, and later SIGCONT: it is silent for a time.
  kCut,      // It runs, but for a time its network carries nothing.
  kStorage,  // For a time its reads and writes fail or wait.
};

// What is wrong with the run folder, as one server sees it.
enum class StorageFault {
  kNone,
  kUnreadable,  // Reading checkpoints is an error (EIO).
  kFull,        // Writing is an error (ENOSPC).
  kStalled,     // Reading and writing wait.
};

// One disturbance. Acts are done in their order, each when it is due.
struct Act {
  ActKind kind = ActKind::kKill;
  Part part = Part::kWorker;
  int number = 0;  // Of the worker, member or shard.
  // The act is due once the coordinator has decided this version. With
  // `after_checkpoint` there must also be a whole checkpoint that was begun
  // after the last act on a server.
  int64_t at_version = 0;
  bool after_checkpoint = false;
  // How long it lasts, in leases (limits.lease_s); unused for kKill.
  double leases = 0;
  StorageFault fault = StorageFault::kNone;  // kNone unless kStorage.

  bool operator==(const Act&) const = default;
};

// Whether the part is a ps_server, whose loss sends the job back to a
// checkpoint.
bool OnServer(const Act& act);

// "kill", "stop", "cut", "storage".
std::string NameOfKind(ActKind kind);
// "unreadable", "full", "stalled".
std::string NameOfFault(StorageFault fault);
// "stop ps_server-1 for 0.4 leases".
std::string Describe(const Act& act);
// With its time: "version 40, after a checkpoint: kill ps_server-1".
std::string DescribeWithTime(const Act& act);

struct ChaosPlan {
  int kills = 0;
  int stops = 0;
  int cuts = 0;
  int storage_faults = 0;  // REQUIRES: 0 without `servers`.
  int workers = 1;
  int members = 1;  // Processes of each worker.
  int shards = 1;
  bool evaluator = false;
  bool servers = true;  // Whether shards and coordinator are disturbed, too.
  int64_t updates = 0;  // Updates of the undisturbed run.
  int64_t checkpoint_every = 1;  // Updates.
};

// Draws which act is done to which part, and when:
//
//   parts      each kind of act takes turns among workers, shards and the
//              coordinator, with one evaluator in ten. Storage faults take
//              turns among shards and the coordinator
//   numbers    drawn for shards. Acts on workers take turns among the workers'
//              processes, since an act waits until its worker is back. The
//              members of a worker share a network: they are cut off together
//   order      drawn, over all kinds
//   versions   drawn, spread over the run. An act on a server is at least two
//              checkpoints' distance after the one before it
//   duration   half are well below the lease, half well above it
//   faults     unreadable, full and stalled in turn
//
// kInvalidArgument: the acts do not fit into the run. The message says what
// would.
absl::StatusOr<std::vector<Act>> DrawSchedule(uint64_t seed,
                                              const ChaosPlan& plan);

}  // namespace sluice

#endif  // SLUICE_CLI_CHAOS_SCHEDULE_H_

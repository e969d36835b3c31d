#ifndef SLUICE_WORKER_DAEMON_H_
#define SLUICE_WORKER_DAEMON_H_

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/job/resolved_job.h"
#include "common/parameter_layout.h"
#include "common/process/stop_signal.h"
#include "common/session/coordinator_client.h"
#include "common/tls/tls_flags.h"
#include "common/tls/transport_security.h"
#include "common/wire/float_type.h"
#include "proto/coordinator.pb.h"
#include "worker/compute/compute_context.h"
#include "worker/exchange/grpc_exchange.h"
#include "worker/exchange/shard_calls.h"
#include "worker/rejoin_policy.h"

namespace CLI {
class App;
}  // namespace CLI

// What the worker and the evaluator have in common around their work.
namespace sluice {

// The flags of both; everything else is in the job file.
struct DaemonFlags {
  std::string job;                     // Path of the job file.
  std::vector<std::string> overrides;  // Each "a.b=c".
  std::string coordinator;             // "host:port"; empty: the job's.
  std::string log;                     // Empty: stderr.
  bool debug = false;                  // Every task is logged.
  std::string http;                    // Of ProcessPort; empty: none.
  bool yield = false;                  // As LeaveOnSignal's.
  TlsFlags tls;
};
void AddDaemonFlags(CLI::App* app, DaemonFlags* flags);

// The job, with the coordinator's address in cluster.coordinator.
// kInvalidArgument or kNotFound say what is wrong. kUnavailable: as LoadJob's.
absl::StatusOr<ResolvedJob> LoadDaemonJob(const DaemonFlags& flags);

// How a process that is `role` talks to the others of its job.
// kInvalidArgument: TransportSecurity::Open, or the coordinator is off the
// loopback in plain text.
absl::StatusOr<TransportSecurity> OpenSecurity(const DaemonFlags& flags,
                                               const ResolvedJob& job,
                                               TlsRole role);

// Logs how the process failed, if it did; the exit code
// (common/process/exit_codes.h).
int ExitCode(const absl::Status& status);
// The same for what is wrong with flags, job or certificates: 2, or 75 where
// the system cannot say just now (kUnavailable).
int UsageExitCode(const absl::Status& status);
// The same for --http: 2 where it is no address, 1 where nobody can listen
// there.
int PortExitCode(const absl::Status& status);

// The session's options for a process of this role (an evaluator's id is 0),
// in its first life or a later one (`rejoins`). The caller fills in join.inputs
// and on_message, and for a group what is of all its processes.
CoordinatorClient::Options SessionOptions(const ResolvedJob& job,
                                          const TransportSecurity& security,
                                          proto::Role role, int64_t id,
                                          bool rejoins);

// The exchange with the shards that the Welcome names; floats travel as
// `types`. `job` must outlive it. kInvalidArgument when the Welcome does not
// name as many shards as the job has, or one that must not be talked to in
// plain text.
absl::StatusOr<std::unique_ptr<GrpcExchange>> OpenExchange(
    const ResolvedJob& job, const TransportSecurity& security, WireTypes types,
    const proto::Welcome& welcome);

// Waits until every shard can be reached: at the start for as long as the
// daemons wait for each other, later as for one that is cut off. Errors and
// `stopped` as GrpcExchange::AwaitReachable's.
absl::Status AwaitReachable(const ResolvedJob& job, bool rejoins,
                            const std::function<bool()>& stopped,
                            GrpcExchange* exchange);

// Shares memory with the shards of this host, if the job is to, and this:
// `gradient`, or nothing.
void ShareMemory(const ResolvedJob& job, const SharedMemory* gradient,
                 GrpcExchange* exchange);

// Has `client`'s heartbeats name the shard that `unreached` returns, called
// from any thread as long as `client` lives.
void TellUnreached(std::function<std::optional<UnreachedShard>()> unreached,
                   CoordinatorClient* client);

// Passes `status` on; where it is an error, `client` says good-bye with it.
absl::Status LeaveUnlessOk(absl::Status status, CoordinatorClient* client);

// Says good-bye on SIGINT or SIGTERM, for each slot of the process. While none
// has joined nobody knows the process, so it ends at once.
// REQUIRES: StopSignal::Block was called; one at a time in a process.
//
// Thread-safe.
class LeaveOnSignal {
 public:
  // `yields`: the process makes room, and is to be started again elsewhere, so
  // it ends with kExitRestart. Else it is over with the run, and ends
  // with 0.
  explicit LeaveOnSignal(bool yields) : yields_(yields) {}

  // From now on a signal calls `leave` with the reason, and if one has come
  // already, this does.
  void Joined(std::function<void(const std::string&)> leave, int slot = 0);
  // Until the slot's next Joined it does not; waits for a call that is under
  // way. Whether a signal has come.
  bool Parted(int slot = 0);
  // Whether a signal has come. Who waits for others before it joins asks.
  bool left();
  bool yields() const { return yields_; }

 private:
  void OnSignal(const std::string& name);

  bool NotLeaving() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !leaving_;
  }

  const bool yields_;

  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  std::map<int, std::function<void(const std::string&)>> leave_
      ABSL_GUARDED_BY(mu_);                    // By slot.
  bool leaving_ ABSL_GUARDED_BY(mu_) = false;  // A call is under way.
  std::string left_ ABSL_GUARDED_BY(mu_);      // Why; empty: no signal yet.

  // Last: its thread uses what is above.
  StopSignal signal_{[this](const std::string& name) { OnSignal(name); }};
};

// Say that a life is over which another one follows, and that this has begun.
void LogEndOfLife(const LifeEnd& end);
void LogNewLife(const proto::Welcome& welcome);

// Replaces what is broken in `*context` by what `make` returns, after
// rejoin->pause(). An error of `make` counts as one more life that ended
// because of it, so it is called again until `*rejoin` says no: then its error
// is returned. Blocks. REQUIRES: the last that `*rejoin` decided was yes, of a
// life whose gradient is broken.
absl::Status MakeAgain(
    const std::function<absl::StatusOr<ComputeContext>()>& make,
    RejoinPolicy* rejoin, ComputeContext* context);

// How the process ended, by its last life: by the coordinator's Finish if there
// was one, else by what its work or the session say. OK: the run reached its
// end, or the process left for good. AsksForRestart, kCancelled: it `yields`.
// AsksForRestart, kUnauthenticated or kPermissionDenied: its certificate or its
// key was refused.
absl::Status RunOutcome(const LifeEnd& last, bool yields);
// Whether the run has ended, and well.
bool EndedWell(const LifeEnd& last);

}  // namespace sluice

#endif  // SLUICE_WORKER_DAEMON_H_

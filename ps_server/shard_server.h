#ifndef SLUICE_PS_SERVER_SHARD_SERVER_H_
#define SLUICE_PS_SERVER_SHARD_SERVER_H_

#include <grpcpp/server.h>

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/clock.h"
#include "common/files/storage_retry.h"
#include "common/http/process_port.h"
#include "common/job/initial_weights.h"
#include "common/job/resolved_job.h"
#include "common/rpc/listener.h"
#include "common/rpc/new_connections.h"
#include "common/tls/transport_security.h"
#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/session/coordinator_endpoint.h"
#include "ps_server/flags.h"
#include "ps_server/lead.h"
#include "ps_server/next_generation.h"
#include "ps_server/resume.h"
#include "ps_server/shard/exchange_service.h"
#include "ps_server/shard/shard.h"
#include "ps_server/shard_agent.h"

namespace sluice {

// One ps_server for as long as one generation: a shard, its Exchange service
// and its session, and in shard 0 the coordinator, all on one port.
// RequestStop, RequestCheckpoint and Status may be called from any thread.
//
// Thread-compatible.
class ShardServer {
 public:
  // Serves what connects to `listener`; then, in shard 0, takes the generation.
  // `earlier`: the life of this process before, if it had one.
  // kInvalidArgument: the flags do not fit the job. kUnavailable, which
  // AsksForRestart: the run folder cannot be written, or not be read for
  // limits.storage_timeout_s or until `pause`, between two tries, is stopped.
  // kAlreadyExists: there has been a run in it. kPermissionDenied: another
  // process has taken the generation, or a later one. kFailedPrecondition: as
  // FindRecovery. kOutOfRange: as FindRecovery, and those who had not heard of
  // the end have been told. `security`, `listener` and `port`, which shows this
  // shard unless it leads, must outlive the server.
  static absl::StatusOr<std::unique_ptr<ShardServer>> Start(
      const Flags& flags, const ResolvedJob& job,
      std::shared_ptr<const InitialWeights> weights,
      const std::optional<EarlierLife>& earlier,
      const TransportSecurity& security, Listener* listener,
      StoppablePause* pause, ProcessPort* port);
  ~ShardServer();

  // Takes part in the run; blocks until its generation is over. What to begin
  // the next one with; nullopt: the run has reached its end. Else what failed,
  // or whom it waited for in vain; kPermissionDenied: another lead goes on
  // with the run. REQUIRES: called once.
  absl::StatusOr<std::optional<EarlierLife>> Run();

  // The lead ends the run as if a stop condition had been reached; others only
  // say that they wait for it.
  void RequestStop(const std::string& reason);

  // Has the next version stored, and returns it. Errors as
  // Coordinator::RequestCheckpoint's. REQUIRES: this is shard 0.
  absl::StatusOr<int64_t> RequestCheckpoint();

  // How the run stands. From any thread. kUnavailable: the generation is over,
  // and another one follows. REQUIRES: this is shard 0.
  absl::StatusOr<proto::JobStatus> Status();
  // How it stood in the end; nullopt: it has not ended, or this is not shard 0.
  std::optional<proto::JobStatus> FinalStatus();

 private:
  ShardServer(const Flags& flags, const ResolvedJob& job,
              std::shared_ptr<const InitialWeights> weights,
              const std::optional<EarlierLife>& earlier,
              const TransportSecurity& security, Listener* listener,
              ProcessPort* port);

  // Takes connections from here on; no call is answered before Serve.
  absl::Status Listen(const Flags& flags, const ResolvedJob& job);
  // Takes the run. From a lead that lives it takes two generations: the first
  // ends that one, the second goes on from what it has left.
  absl::Status TakeGeneration(const Flags& flags, const ResolvedJob& job,
                              StoppablePause* pause);
  absl::Status TakeNext(const Flags& flags, const ResolvedJob& job,
                        const KnownRun& known, StoppablePause* pause);
  // Tells those that have not heard it that the run is over, for a lease, in
  // which whoever still runs tries to join; or until `pause` is stopped. Then
  // nothing is left of the farewell. `reason`: of FindRecovery.
  absl::Status ServeEnd(const ResolvedJob& job, const std::string& run_dir,
                        const std::string& reason, StoppablePause* pause);
  absl::Status Serve(const Flags& flags, const ResolvedJob& job);
  void ServeCoordinator(CoordinatorEndpoint::Handler* handler);
  absl::StatusOr<std::optional<EarlierLife>> RunLead();
  // Once the shards are there; tries again until the generation is over.
  void WriteAllAddresses();
  proto::JobStatus LeadStatus();
  // Stops serving; calls under way are cancelled.
  void StopServing();

  // Constant after Start.
  Clock* const clock_ = Clock::Real();
  const int number_;
  const std::shared_ptr<const InitialWeights> initial_weights_;
  const std::optional<EarlierLife> earlier_;
  const TransportSecurity& security_;
  Listener& listener_;
  ProcessPort* const port_;
  std::string address_;      // Where others reach it,
  std::string coordinator_;  // and where it reaches the coordinator.
  std::string run_id_;       // In shard 0.

  StoppablePause restoring_;  // Of the exchange thread, between two tries.
  Shard shard_;
  absl::Mutex lead_mu_;  // Acquired before the service's.
  bool lead_closed_ ABSL_GUARDED_BY(lead_mu_) = false;
  std::optional<proto::JobStatus> final_status_ ABSL_GUARDED_BY(lead_mu_);
  std::unique_ptr<Lead> lead_;                       // In shard 0,
  std::unique_ptr<CoordinatorEndpoint> endpoint_;    // where it answers,
  std::unique_ptr<NewConnections> new_connections_;  // and they begin.
  ExchangeService exchange_;
  std::unique_ptr<grpc::Server> server_;  // Null before and after listening.
  std::unique_ptr<ShardAgent> agent_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_SERVER_H_

#ifndef SLUICE_PS_SERVER_SHARD_SERVER_H_
#define SLUICE_PS_SERVER_SHARD_SERVER_H_

#include <grpcpp/server.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/initial_weights.h"
#include "common/resolved_job.h"
#include "ps_server/coordinator/coordinator_endpoint.h"
#include "ps_server/flags.h"
#include "ps_server/lead.h"
#include "ps_server/shard/exchange_service.h"
#include "ps_server/shard/shard.h"
#include "ps_server/shard_agent.h"

namespace sluice {

// One ps_server: a shard, its Exchange service and its session, and in shard 0
// the coordinator, all on one port. RequestStop may be called from any thread.
//
// Thread-compatible.
class ShardServer {
 public:
  // Listens. kInvalidArgument: the flags do not fit the job. kUnavailable: the
  // address is taken or not ours; or the run folder cannot be written.
  // kAlreadyExists: there has been a run in it. Errors of model.init_from as
  // InitialWeights's.
  static absl::StatusOr<std::unique_ptr<ShardServer>> Start(
      const Flags& flags, const ResolvedJob& job);
  ~ShardServer();

  // Takes part in the run; blocks until it is over. OK: it reached its end.
  // Else what failed, or whom it waited for in vain.
  absl::Status Run();

  // The lead ends the run as if a stop condition had been reached; others only
  // say that they wait for it.
  void RequestStop(const std::string& reason);

 private:
  ShardServer(const Flags& flags, const ResolvedJob& job,
              std::shared_ptr<const InitialWeights> weights);

  absl::Status Listen(const Flags& flags, const ResolvedJob& job);
  absl::Status RunLead();
  // Stops serving; calls under way are cancelled.
  void StopServing();

  // Constant after Start.
  Clock* const clock_ = Clock::Real();
  const int number_;
  const std::shared_ptr<const InitialWeights> initial_weights_;
  std::string address_;  // Where others reach it.

  Shard shard_;
  std::unique_ptr<Lead> lead_;                     // In shard 0,
  std::unique_ptr<CoordinatorEndpoint> endpoint_;  // and where it answers.
  ExchangeService exchange_;
  std::unique_ptr<grpc::Server> server_;  // Null before and after serving.
  std::unique_ptr<ShardAgent> agent_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_SERVER_H_

#ifndef SLUICE_PS_SERVER_SHARD_EXCHANGE_SERVICE_H_
#define SLUICE_PS_SERVER_SHARD_EXCHANGE_SERVICE_H_

#include <grpcpp/server_builder.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/rpc/listener.h"
#include "common/tls/transport_security.h"
#include "ps_server/decisions/decision.h"
#include "ps_server/shard/exchange_counters.h"
#include "ps_server/shard/shard.h"

namespace sluice {

// The Exchange service of one shard (proto/exchange.proto). One thread polls,
// decodes, stages, applies and replies: that is the fastest arrangement, and
// the shard needs no lock.
//
//   Shard shard(options);
//   ExchangeService exchange(&shard, Clock::Real());
//   grpc::ServerBuilder builder;
//   exchange.Register(&builder);
//   auto server = builder.BuildAndStart();   // Check it.
//   exchange.Start();
//   ...
//   server->Shutdown(deadline);
//   exchange.Shutdown();
//
// Execute and counters may be called from any thread.
//
// Not thread-safe otherwise: call from the thread that builds the server.
class ExchangeService {
 public:
  // `shard` belongs to the exchange thread from Start to Shutdown. Both must
  // outlive this. A pull whose caller takes nothing for `stall`
  // (limits.transfer_stall_s) is given up, so that it holds no version for
  // ever; one that waits for its version is answered NOT_YET after half of it,
  // so that its caller does not take it for stalled. A call that brings nothing
  // for so long is given up as well. `security` says who may call. `listener`
  // is that of the server, if it has one; it must outlive this, too.
  ExchangeService(Shard* shard, Clock* clock,
                  absl::Duration stall = absl::Seconds(30),
                  const TransportSecurity& security = TransportSecurity(),
                  Listener* listener = nullptr);
  // REQUIRES: Shutdown has been called, if Register was.
  ~ExchangeService();

  // `begins_connections`: as CoordinatorEndpoint's.
  void Register(grpc::ServerBuilder* builder, bool begins_connections = true);

  // Is told once what a worker says of its gradient `key`, when that is staged:
  // a serialised Ready. An error becomes the push's answer, kInvalidArgument as
  // kDataLoss.
  using TakeReady = std::function<absl::Status(const GradientKey& key,
                                               const std::string& ready)>;
  // Starts the thread, on which `take_ready` is called; it must not block.
  // Empty: this is not the one shard of a run, and refuses a Ready.
  // REQUIRES: the server has been built.
  void Start(TakeReady take_ready = nullptr);

  // The decision's outcome: what it led to, or what the shard found wrong, the
  // last decision executed, and the version it stands at.
  using ExecuteDone = std::function<void(
      absl::StatusOr<Shard::Executed> outcome, int64_t last, Version version)>;
  // Executes a decision on the exchange thread, in the order of the calls, and
  // calls `done` there; `done` must not block. After Shutdown began, `done` is
  // called with kUnavailable, on the caller's thread. REQUIRES: the server has
  // been built.
  void Execute(Decision decision, ExecuteDone done);

  // Waits until every call has ended, then joins the thread. May be repeated.
  // REQUIRES: the server's Shutdown has returned, or is running with a deadline
  // in another thread.
  void Shutdown();

  ExchangeCounters counters() const;

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_EXCHANGE_SERVICE_H_

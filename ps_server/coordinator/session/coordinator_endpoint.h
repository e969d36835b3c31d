#ifndef SLUICE_PS_SERVER_COORDINATOR_SESSION_COORDINATOR_ENDPOINT_H_
#define SLUICE_PS_SERVER_COORDINATOR_SESSION_COORDINATOR_ENDPOINT_H_

#include <grpcpp/server_builder.h>

#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/rpc/listener.h"
#include "common/tls/transport_security.h"
#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/session/session_stream.h"

namespace sluice {

// The Coordinator service (proto/coordinator.proto) on a server: all sessions
// and calls on one completion queue with one thread. Of several threads gRPC
// wakes another one for each event, which takes longer than handling it.
//
//   CoordinatorEndpoint endpoint(&handler);
//   grpc::ServerBuilder builder;
//   endpoint.Register(&builder);
//   auto server = builder.BuildAndStart();   // Check it.
//   endpoint.Start();
//   ...
//   server->Shutdown(deadline);
//   endpoint.Shutdown();
//
// Thread-compatible.
class CoordinatorEndpoint {
 public:
  // Called on the endpoint's thread, must not block.
  class Handler : public SessionStream::Handler {
   public:
    // kNotFound: this is not the run that the caller means, which is not empty.
    virtual absl::Status CheckRun(const std::string& run_id) = 0;
    virtual proto::JobStatus OnGetStatus() = 0;
    virtual void OnStop(const proto::StopRequest& request) = 0;
    // What is answered.
    virtual absl::StatusOr<proto::CheckpointReply> OnRequestCheckpoint() = 0;
    virtual absl::Status OnReportDeath(const proto::DeathReport& report) = 0;
  };
  // `handler` must outlive the endpoint. Null: SetHandler says it. `security`
  // says who may call. `listener` is that of the server, if it has one, and
  // must outlive this. The request of a call and
  // the Join of a session have `first_timeout` to come.
  explicit CoordinatorEndpoint(
      Handler* handler, const TransportSecurity& security = TransportSecurity(),
      Listener* listener = nullptr,
      absl::Duration first_timeout = absl::Seconds(10));
  // REQUIRES: Shutdown has been called, if Register was.
  ~CoordinatorEndpoint();

  // `begins_connections`: new ones are polled here. Not in a server with other
  // queues (NewConnections).
  void Register(grpc::ServerBuilder* builder, bool begins_connections = true);
  // Calls that come before Start wait for it. REQUIRES: it was not started.
  void SetHandler(Handler* handler);
  // Starts the thread. REQUIRES: the server has been built; there is a handler.
  void Start();
  // Waits until every call has ended, then joins the thread. May be repeated.
  // REQUIRES: the server's Shutdown has returned, or it was never built.
  void Shutdown();

 private:
  void Serve();

  Handler* handler_;  // Constant after Start.
  SessionStream::Context context_;
  bool shut_ = false;
  std::thread thread_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_SESSION_COORDINATOR_ENDPOINT_H_

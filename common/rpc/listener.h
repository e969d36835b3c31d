#ifndef SLUICE_COMMON_RPC_LISTENER_H_
#define SLUICE_COMMON_RPC_LISTENER_H_

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <netinet/in.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/connection_table.h"
#include "common/rpc/new_connections.h"
#include "common/telemetry/log_pace.h"

namespace sluice {

// A port that this process listens on, for one gRPC server after another.
// Between two servers the port stays this process's, and peers that connect in
// that time are served by the next server.
//
//   auto listener = Listener::Open("[::]:7000");   // Check it.
//   grpc::ServerBuilder builder;
//   auto connections =
//       Listener::AddTo(&builder, grpc::InsecureServerCredentials());
//   auto server = builder.BuildAndStart();
//   (*listener)->Serve(std::move(connections));
//   ...
//   (*listener)->Rest();
//   server->Shutdown(deadline);
//
// The listener accepts connections itself, on its own thread. gRPC 1.51 never
// accepts again once a process has run out of file descriptors (CVE-2023-4785).
// The listener instead refuses connections while there are no descriptors, logs
// that, and serves again when there are some. It always leaves a few
// descriptors for the process's own files. It also closes what exceeds the
// limits on connections (connection_table.h).
//
// Thread-safe.
class Listener {
 public:
  using Connections = grpc::experimental::ExternalConnectionAcceptor;

  // Listens on "host:port" (common/host_port.h). Port 0: a free one. "Every
  // interface" means IPv4 and IPv6 if the system has both. Connections wait
  // until Serve. kInvalidArgument: not an address. kUnavailable: the port is
  // taken, or the address is not this host's.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(
      const std::string& address, ConnectionLimits limits = {});
  // REQUIRES: Rest was called, if Serve was.
  ~Listener();

  // Connects the server that `builder` will make to this listener. Its
  // connections are served with `credentials`.
  static std::unique_ptr<Connections> AddTo(
      grpc::ServerBuilder* builder,
      std::shared_ptr<grpc::ServerCredentials> credentials);
  // Hands connections to that server from now on, and tells `fresh`, if it has
  // one, of each. REQUIRES: it has been started.
  void Serve(std::unique_ptr<Connections> connections,
             NewConnections* fresh = nullptr);
  // From now on connections wait for the next Serve.
  void Rest();

  int port() const { return port_; }
  // As ConnectionTable's.
  void Explain(absl::string_view peer, int64_t received, int64_t sent) {
    table_.Explain(peer, received, sent);
  }
  void BeginReading(absl::string_view peer) { table_.BeginReading(peer); }
  void EndReading(absl::string_view peer) { table_.EndReading(peer); }
  void Accuse(absl::string_view peer, absl::string_view did) {
    table_.Accuse(peer, did);
  }
  // Connections closed: over a limit, for an offence, or because no file
  // descriptor was free.
  int64_t refused_total() const { return refused_; }

 private:
  Listener(std::vector<int> sockets, int port, ConnectionLimits limits);

  void Run();
  // Accepts all connections that wait on `socket`. False: `socket` must not be
  // polled again for a while.
  bool Accept(int socket);
  // Accepts one connection with the spare descriptor, and closes it.
  bool AcceptAndRefuse(int socket);
  void HandOver(int socket, int connection, const sockaddr_in6& peer);
  void CountRefused(const std::string& reason);
  void Wake();

  // Constant after construction.
  const std::vector<int> sockets_;
  const int port_;
  const int wake_;  // An eventfd.

  // Used by the accepting thread only.
  int spare_ = -1;
  LogPace line_;

  ConnectionTable table_;
  std::atomic<int64_t> refused_ = 0;

  absl::Mutex mu_;  // Acquired before gRPC's own locks.
  std::unique_ptr<Connections> connections_ ABSL_GUARDED_BY(mu_);
  NewConnections* fresh_ ABSL_GUARDED_BY(mu_) = nullptr;
  bool closing_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // Joined by the destructor.
};

}  // namespace sluice

#endif  // SLUICE_COMMON_RPC_LISTENER_H_

#ifndef SLUICE_COMMON_RPC_LISTENER_H_
#define SLUICE_COMMON_RPC_LISTENER_H_

#include <grpcpp/server_builder.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace sluice {

// A port that this process listens on, for one gRPC server after the other: it
// is nobody else's in between, and who connects then is served by the next.
//
//   auto listener = Listener::Open("[::]:7000");   // Check it.
//   grpc::ServerBuilder builder;
//   auto connections = Listener::AddTo(&builder);
//   auto server = builder.BuildAndStart();
//   (*listener)->Serve(std::move(connections));
//   ...
//   (*listener)->Rest();
//   server->Shutdown(deadline);
//
// Accepts by itself, on a thread of its own: gRPC 1.51 accepts nothing any more
// after the first time that a process has no file descriptor left
// (CVE-2023-4785). This one refuses who connects then, says so, and serves
// again as soon as there are some. It leaves the process a few, for its own
// files.
//
// Thread-safe.
class Listener {
 public:
  using Connections = grpc::experimental::ExternalConnectionAcceptor;

  // Listens on "host:port" (common/host_port.h); port 0: a free one. Every
  // interface is IPv4's and IPv6's, where the system has both. Nobody is
  // answered before Serve. kInvalidArgument: not an address. kUnavailable: the
  // port is taken, or the address is not this host's.
  static absl::StatusOr<std::unique_ptr<Listener>> Open(
      const std::string& address);
  // REQUIRES: Rest was called, if Serve was.
  ~Listener();

  // Where the server that `builder` makes takes its connections from.
  static std::unique_ptr<Connections> AddTo(grpc::ServerBuilder* builder);
  // Connections go to that server from now on. REQUIRES: it has been started.
  void Serve(std::unique_ptr<Connections> connections);
  // From here on they wait for the next Serve.
  void Rest();

  int port() const { return port_; }
  // Connections refused for want of file descriptors.
  int64_t refused_total() const { return refused_; }

 private:
  Listener(std::vector<int> sockets, int port);

  void Run();
  // Accepts what has come on `socket`. False: it must not be asked for a while.
  bool Accept(int socket);
  // Accepts one with the descriptor that is kept for that, and closes it.
  bool AcceptAndRefuse(int socket);
  void HandOver(int socket, int connection);
  void CountRefused();
  void Wake();

  // Constant after construction.
  const std::vector<int> sockets_;
  const int port_;
  const int wake_;  // An eventfd.

  // Of the accepting thread.
  int spare_ = -1;
  absl::Time next_line_ = absl::InfinitePast();

  std::atomic<int64_t> refused_ = 0;

  absl::Mutex mu_;  // Acquired before gRPC's.
  std::unique_ptr<Connections> connections_ ABSL_GUARDED_BY(mu_);
  bool closing_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // Joined by the destructor.
};

}  // namespace sluice

#endif  // SLUICE_COMMON_RPC_LISTENER_H_

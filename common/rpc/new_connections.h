#ifndef SLUICE_COMMON_RPC_NEW_CONNECTIONS_H_
#define SLUICE_COMMON_RPC_NEW_CONNECTIONS_H_

#include <grpcpp/completion_queue.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace sluice {

// Where the connections of a server are polled until a call is on them. From
// then on the queue of that call polls them, too; and where two threads poll
// one socket, gRPC has each that returns wake the other (ev_poll_posix.cc). So
// in a server with several queues none of those should be where connections
// begin, or its thread wakes for the others' calls. This one's thread polls
// without pause for a while after a connection has come, since its first call
// most likely comes with it, and else ten times a second.
//
//   NewConnections fresh(&builder);
//   endpoint.Register(&builder, /*begins_connections=*/false);
//   exchange.Register(&builder, /*begins_connections=*/false);
//   auto server = builder.BuildAndStart();
//   fresh.Start();
//   ...
//   server->Shutdown(deadline);   // Then `fresh` may go.
//
// Came may be called from any thread.
//
// Not thread-safe otherwise: call from the thread that builds the server.
class NewConnections {
 public:
  // Polls without pause for `busy` after a connection has come.
  explicit NewConnections(grpc::ServerBuilder* builder,
                          absl::Duration busy = absl::Milliseconds(500));
  // REQUIRES: the server's Shutdown has returned, or it was never built.
  ~NewConnections();

  // Starts the thread. Until then connections wait. REQUIRES: the server has
  // been built.
  void Start();
  // A connection has come.
  void Came();

 private:
  void Run();
  bool ClosingOrBusy() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return closing_ || busy_until_ > looked_;
  }

  const absl::Duration busy_;  // Constant after construction.
  const std::unique_ptr<grpc::ServerCompletionQueue> queue_;

  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  absl::Time busy_until_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  absl::Time looked_ ABSL_GUARDED_BY(mu_) = absl::InfinitePast();
  bool closing_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // Joined by the destructor.
};

}  // namespace sluice

#endif  // SLUICE_COMMON_RPC_NEW_CONNECTIONS_H_

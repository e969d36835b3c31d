#include "common/http/slow_connections.h"

#include <sys/socket.h>

#include "common/await_for.h"
#include "common/clock.h"
#include "common/process/named_thread.h"

namespace sluice {

SlowConnections::SlowConnections(absl::Duration limit)
    : limit_(limit),
      thread_(StartThread("http-limit", [this] { ShutSlowOnes(); })) {}

SlowConnections::~SlowConnections() {
  {
    absl::MutexLock lock(&mu_);
    ended_ = true;
  }
  thread_.join();
}

void SlowConnections::Begin(const void* connection, int socket) {
  absl::MutexLock lock(&mu_);
  connections_[connection] = {socket, Clock::Real()->Now()};
}

void SlowConnections::End(const void* connection) {
  absl::MutexLock lock(&mu_);
  connections_.erase(connection);
}

void SlowConnections::ShutSlowOnes() {
  absl::MutexLock lock(&mu_);
  while (!AwaitFor(&mu_, absl::Condition(&ended_), limit_ / 4)) {
    const absl::Time now = Clock::Real()->Now();
    for (const auto& [unused, connection] : connections_) {
      // The port's thread sees the end and closes the socket.
      if (now - connection.since > limit_) {
        shutdown(connection.socket, SHUT_RDWR);
      }
    }
  }
}

}  // namespace sluice

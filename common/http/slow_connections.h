#ifndef SLUICE_COMMON_HTTP_SLOW_CONNECTIONS_H_
#define SLUICE_COMMON_HTTP_SLOW_CONNECTIONS_H_

#include <map>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace sluice {

// Shuts the sockets of connections that are too old, whatever comes on them:
// who sends a byte now and then, or reads so, would otherwise keep one for
// ever.
//
// Thread-safe.
class SlowConnections {
 public:
  explicit SlowConnections(absl::Duration limit);
  ~SlowConnections();

  SlowConnections(const SlowConnections&) = delete;
  SlowConnections& operator=(const SlowConnections&) = delete;

  // `connection`, a name for the one on `socket`, has come.
  void Begin(const void* connection, int socket);
  // To be called before the socket is closed.
  void End(const void* connection);

 private:
  void ShutSlowOnes();

  struct Connection {
    int socket;
    absl::Time since;
  };

  const absl::Duration limit_;

  absl::Mutex mu_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::map<const void*, Connection> connections_ ABSL_GUARDED_BY(mu_);

  std::thread thread_;  // Last: it uses what is above.
};

}  // namespace sluice

#endif  // SLUICE_COMMON_HTTP_SLOW_CONNECTIONS_H_

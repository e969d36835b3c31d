#ifndef SLUICE_BENCH_EXCHANGE_LINK_H_
#define SLUICE_BENCH_EXCHANGE_LINK_H_

#include "absl/time/time.h"
#include "bench/exchange_sockets.h"

namespace sluice::bench {

// A link with a long round trip, as between hosts that are far apart: what
// comes on a connection to the port that this listens on goes on to `port` half
// a round trip later, and back as late. It carries as much at once as comes,
// like a fast link, so only who waits for an answer feels it.
class LongLink {
 public:
  // Listens; both ports are of the loopback. Ends the process if it cannot.
  LongLink(int port, absl::Duration round_trip);
  int port() const { return listening_.port; }
  // Forwards, until the process is killed.
  [[noreturn]] void Run();

 private:
  const int port_;
  const absl::Duration delay_;
  const Listening listening_;
};

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_EXCHANGE_LINK_H_

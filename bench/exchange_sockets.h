#ifndef SLUICE_BENCH_EXCHANGE_SOCKETS_H_
#define SLUICE_BENCH_EXCHANGE_SOCKETS_H_

// TCP sockets on the loopback. Each function ends the process if it fails.
namespace sluice::bench {

struct Listening {
  int fd = -1;
  int port = 0;
};
// Listens on a free port.
Listening ListenOnLoopback();
// Waits for a connection, which sends without delay; returns it.
int AcceptFrom(const Listening& listening);
// A connection to `port`, which sends without delay.
int ConnectOnLoopback(int port);

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_EXCHANGE_SOCKETS_H_

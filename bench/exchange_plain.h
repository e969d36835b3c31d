#ifndef SLUICE_BENCH_EXCHANGE_PLAIN_H_
#define SLUICE_BENCH_EXCHANGE_PLAIN_H_

#include "bench/exchange_team.h"

namespace sluice::bench {

// The least program that does the same over plain TCP sockets, one thread a
// process: a shard receives a gradient in pieces that stay in the cache,
// applies each as it comes (with the shard's own kernel) and sends the weights
// from where they lie; a worker sends from and receives to where they lie.
// Nothing is staged, checked, versioned or framed.
Bodies PlainSide();

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_EXCHANGE_PLAIN_H_

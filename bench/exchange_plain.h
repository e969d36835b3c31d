#ifndef SLUICE_BENCH_EXCHANGE_PLAIN_H_
#define SLUICE_BENCH_EXCHANGE_PLAIN_H_

#include "bench/exchange_team.h"

namespace sluice::bench {

// A minimal program for the same exchange, over plain TCP sockets and with one
// thread per process. A shard receives a gradient in pieces that stay in the
// cache, applies each at once (with the shard's own kernel), and sends the
// weights from their place. A worker sends from and receives into the final
// place. Nothing is staged, checked, versioned or framed.
Bodies PlainSide();

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_EXCHANGE_PLAIN_H_

#ifndef SLUICE_BENCH_EXCHANGE_MEMORY_H_
#define SLUICE_BENCH_EXCHANGE_MEMORY_H_

#include "bench/exchange_team.h"

namespace sluice::bench {

// A minimal program for the exchange of one worker with one shard over memory
// that both map, with one thread per process and a futex between them. The
// gradient is made in that memory; the shard copies it away in pieces that stay
// in the cache, looks for NaN, and then applies it (with its own kernel) to
// weights in that memory; the worker copies these away. Nothing is versioned,
// held or framed. REQUIRES, of the plan: one worker, one shard, in turn.
Bodies MemorySide(const ExchangePlan& plan);

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_EXCHANGE_MEMORY_H_

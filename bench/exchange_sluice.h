#ifndef SLUICE_BENCH_EXCHANGE_SLUICE_H_
#define SLUICE_BENCH_EXCHANGE_SLUICE_H_

#include "bench/exchange_team.h"

namespace sluice::bench {

// Sluice's own shard and worker ends: ExchangeService and GrpcExchange.
Bodies SluiceSide();

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_EXCHANGE_SLUICE_H_

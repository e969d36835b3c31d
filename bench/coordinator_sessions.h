#ifndef SLUICE_BENCH_COORDINATOR_SESSIONS_H_
#define SLUICE_BENCH_COORDINATOR_SESSIONS_H_

#include <cstdint>

namespace sluice::bench {

// Tasks per second that `workers` sessions of this process receive over real
// gRPC on loopback. Each session answers a task with Ready at once, until
// `count` have been answered. The first variant is the coordinator's service
// under ASYNC, with `shards` shards that acknowledge at once, ...
double DecidedTasksPerSecond(int workers, int shards, int64_t count);
// ... the second a service that answers every Ready with the next task and
// decides nothing.
double EchoedTasksPerSecond(int workers, int64_t count);

}  // namespace sluice::bench

#endif  // SLUICE_BENCH_COORDINATOR_SESSIONS_H_

#ifndef SLUICE_WORKER_WORKER_COUNTERS_H_
#define SLUICE_WORKER_WORKER_COUNTERS_H_

#include <cstdint>

#include "common/telemetry/counter_table.h"

namespace sluice {

// What a worker has done since it joined. Its heartbeats carry these to the
// coordinator, whose status shows them, and it logs them at the end.
struct WorkerCounters {
  int64_t tasks_started = 0;
  int64_t tasks_cancelled = 0;
  int64_t cancelled_unstarted = 0;
  int64_t gradients_delivered = 0;
  int64_t gradients_rejected = 0;
  int64_t applied = 0;
  int64_t dropped = 0;
  int64_t loss_overflows = 0;
  int64_t pulled_bytes = 0;
  int64_t pushed_bytes = 0;
  int64_t repeated_calls = 0;
  int64_t model_restarts = 0;
  int64_t damaged_samples = 0;
  int64_t compute_microseconds = 0;
  int64_t saved_microseconds = 0;
};

inline constexpr CounterRow<WorkerCounters> kWorkerCounters[] = {
    {"tasks_started_total", "tasks begun", &WorkerCounters::tasks_started},
    {"tasks_cancelled_total", "tasks cancelled while they ran",
     &WorkerCounters::tasks_cancelled},
    {"cancelled_unstarted_total", "tasks cancelled before they began",
     &WorkerCounters::cancelled_unstarted},
    {"gradients_delivered_total", "gradients that every shard staged",
     &WorkerCounters::gradients_delivered},
    {"gradients_rejected_total", "gradients that a shard refused",
     &WorkerCounters::gradients_rejected},
    {"applied_total", "gradients that are in an update",
     &WorkerCounters::applied},
    {"dropped_total", "gradients dropped as too stale",
     &WorkerCounters::dropped},
    {"loss_overflows_total", "gradients computed again because FP16 overflowed",
     &WorkerCounters::loss_overflows},
    {"pulled_bytes_total", "bytes of weights that came from the shards",
     &WorkerCounters::pulled_bytes},
    {"pushed_bytes_total", "bytes of gradients handed to the network",
     &WorkerCounters::pushed_bytes},
    {"repeated_calls_total", "pulls and pushes repeated after a failure",
     &WorkerCounters::repeated_calls},
    {"model_restarts_total",
     "model processes started again, since the worker's own start",
     &WorkerCounters::model_restarts},
    {"damaged_samples_total",
     "damaged samples that others stood in for, since the worker's own start",
     &WorkerCounters::damaged_samples},
    {"compute_microseconds_total", "microseconds of computing",
     &WorkerCounters::compute_microseconds},
    {"saved_microseconds_total",
     "microseconds that cancelled tasks would still have computed",
     &WorkerCounters::saved_microseconds},
};
static_assert(IsWhole(kWorkerCounters));

}  // namespace sluice

#endif  // SLUICE_WORKER_WORKER_COUNTERS_H_

#ifndef SLUICE_PS_SERVER_COORDINATOR_CORE_COUNTERS_H_
#define SLUICE_PS_SERVER_COORDINATOR_CORE_COUNTERS_H_

#include <cstdint>

#include "common/telemetry/counter_table.h"

// What the coordinator counts. metrics.jsonl, summary.json, JobStatus, `sluice
// status` and the checkpoint's snapshot are made from these tables, so that a
// counter that is added here is in all of them.
namespace sluice {

// Gradients by how they ended; of a run or of one worker.
struct GradientCounts {
  int64_t applied = 0;
  int64_t cancelled = 0;
  int64_t dropped = 0;
  int64_t rejected = 0;
  int64_t lost = 0;
};

// Of a run since version 0. A checkpoint holds them, and a generation that goes
// on from it begins with them.
struct RunCounters : GradientCounts {
  int64_t samples_applied = 0;
  int64_t batches_left_out = 0;
  int64_t losses_not_finite = 0;
  int64_t tasks_overdue = 0;
  int64_t logged_left_out = 0;
};

// A name that changes loses its value in the checkpoints that are there.
inline constexpr CounterRow<RunCounters> kRunCounters[] = {
    {"samples", "samples in the weights", &RunCounters::samples_applied},
    {"gradients.applied", "gradients in an update", &RunCounters::applied},
    {"gradients.cancelled", "gradients cancelled", &RunCounters::cancelled},
    {"gradients.dropped", "gradients dropped as too stale",
     &RunCounters::dropped},
    {"gradients.rejected", "gradients refused by a shard (NaN or infinite)",
     &RunCounters::rejected},
    {"gradients.lost", "gradients lost with their generation",
     &RunCounters::lost},
    {"batches_left_out", "mini-batches left out",
     &RunCounters::batches_left_out},
    {"losses_not_finite", "losses that are NaN or infinite",
     &RunCounters::losses_not_finite},
    {"tasks_overdue", "tasks cancelled because they took too long",
     &RunCounters::tasks_overdue},
    {"logged_left_out", "logged values left out, of more than 64 names",
     &RunCounters::logged_left_out},
};
static_assert(IsWhole(kRunCounters));

// Of the checkpoints of one generation, where the job has any.
struct CheckpointCounters {
  int64_t written = 0;
  int64_t failed = 0;
  int64_t late = 0;
};

inline constexpr CounterRow<CheckpointCounters> kCheckpointCounters[] = {
    {"checkpoints.written", "checkpoints written",
     &CheckpointCounters::written},
    {"checkpoints.failed", "checkpoints given up", &CheckpointCounters::failed},
    {"checkpoints.late",
     "checkpoints left out because the one before was still being written",
     &CheckpointCounters::late},
};
static_assert(IsWhole(kCheckpointCounters));

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_CORE_COUNTERS_H_

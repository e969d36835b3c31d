#ifndef SLUICE_PS_SERVER_COORDINATOR_CORE_TRAINING_SNAPSHOT_H_
#define SLUICE_PS_SERVER_COORDINATOR_CORE_TRAINING_SNAPSHOT_H_

#include "absl/time/time.h"
#include "common/ids.h"
#include "ps_server/coordinator/core/training_stats.h"
#include "ps_server/coordinator/policy/batch_schedule.h"
#include "ps_server/coordinator/policy/k_schedule.h"

namespace sluice {

// What the coordinator knows of a run as of a version, besides the weights:
// enough to begin again from there. Under SYNC every later update is then the
// one that it would have been; under the other policies every mini-batch that
// is not in the weights goes out again.
//
// What may be forgotten is not here: who had which mini-batch, how often one
// was refused, how many gradients each worker has delivered (they begin again
// level), and K and warm-up where the version alone decides them.
struct TrainingSnapshot {
  BatchSchedule::Snapshot schedule;
  // Under SYNC: the first block of the next version. Within the run.
  BlockId round;
  KSchedule::State k;
  TrainingStats::Totals totals;
  // An evaluation was due, or being made.
  bool evaluation_due = false;
  // Since the run began, without the time between its generations.
  absl::Duration running;
};

// Where a run that is resumed begins.
struct ResumePoint {
  // Of the checkpoint; generation 0: there is none, and version is 0.
  Generation generation;
  Version version;
  TrainingSnapshot snapshot;
  std::string manifest = {};  // As Restore's.
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_CORE_TRAINING_SNAPSHOT_H_

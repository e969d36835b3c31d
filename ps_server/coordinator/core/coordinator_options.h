#ifndef SLUICE_PS_SERVER_COORDINATOR_CORE_COORDINATOR_OPTIONS_H_
#define SLUICE_PS_SERVER_COORDINATOR_CORE_COORDINATOR_OPTIONS_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/ids.h"
#include "common/learning_rate.h"
#include "ps_server/coordinator/core/training_snapshot.h"
#include "ps_server/coordinator/policy/sync_options.h"

namespace sluice {

// When the run ends: at the first of these that is reached.
struct StopOptions {
  std::optional<double> epochs;
  std::optional<int64_t> updates;
  std::optional<absl::Duration> time;
  std::optional<double> target_accuracy;
};

// When versions are stored; by updates or by time, whichever comes first.
struct CheckpointOptions {
  int64_t every_updates = 0;                    // 0: not by updates.
  absl::Duration every = absl::ZeroDuration();  // Zero: not by time.
  int keep = 2;                                 // The newest; at least 1.
  // What earlier generations have left, oldest first, by (generation, version);
  // those of them that are proven to be damaged; and the one that was read
  // whole and is gone on from (0, 0: none).
  std::vector<std::pair<Generation, Version>> there = {};
  std::vector<std::pair<Generation, Version>> damaged = {};
  std::pair<Generation, Version> read_whole = {};

  bool enabled() const {
    return every_updates > 0 || every > absl::ZeroDuration();
  }
};

// What a run has been through: its generations before this one.
struct RecoveryOptions {
  // So many in a row that came no further end the run: whatever ends them
  // would end the next one, too.
  static constexpr int kMostFruitless = 5;

  // Whether another one can follow when this one cannot go on. Else the run
  // fails.
  bool possible = false;
  // The newest version that any of them decided, and how many in a row, up to
  // the last one, came neither beyond that nor to a checkpoint.
  Version furthest;
  int fruitless = 0;
  // Whether training has begun in any of them: then this one does not wait for
  // ever for those who do not come back.
  bool begun = true;
  // Who took part in the last one when it ended; absent: not known, since its
  // lead has died.
  std::optional<std::set<WorkerId>> workers = {};
  bool evaluator = true;
  // Why somebody has asked for the end of the run, which is still to be made.
  std::optional<std::string> stop = {};
  // For people: versions that were decided and then rolled back, and why the
  // last one ended.
  int64_t updates_lost = 0;
  std::string reason;
};

// All the coordinator needs to know of the job. Plain values, so that tests
// and the simulator can fill them in without a job file;
// coordinator_options_from_job.h makes them from one.
struct CoordinatorOptions {
  Generation generation{1};
  uint64_t grant_secret = 0;  // Drawn anew for every generation.
  // Where it begins; absent: at version 0. REQUIRES: CheckRecoveryPoint.
  std::optional<ResumePoint> resume;
  RecoveryOptions recovery;

  int workers = 1;      // The run begins when so many have joined.
  int max_workers = 0;  // As Membership's.
  int shards = 1;
  bool evaluator = false;  // Whether one takes part.

  SyncOptions sync;
  LearningRateOptions learning_rate;
  StopOptions stop;

  // Training split and its mini-batches; the last of an epoch may be short.
  int64_t train_samples = 1;
  int batch_size = 1;
  bool static_partitions = false;

  CheckpointOptions checkpoints;

  // Samples between two evaluations; 0: only the final one.
  double evaluate_every_samples = 0;

  // Room on every shard. REQUIRES: at least what one update takes.
  int staged_gradients = 1;
  int commit_window = 4;  // Versions not yet applied by the slowest shard.

  absl::Duration lease = absl::Seconds(5);
  absl::Duration task_deadline = absl::Seconds(600);
  absl::Duration start_timeout = absl::Seconds(300);
  // How long a generation that goes on with a run waits, from when the shards
  // have their weights, for those who took part in the one before.
  absl::Duration regroup_timeout = absl::Seconds(10);
  absl::Duration finish_timeout = absl::Seconds(60);
  absl::Duration tick = absl::Milliseconds(100);
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_CORE_COORDINATOR_OPTIONS_H_

#ifndef SLUICE_PS_SERVER_COORDINATOR_CORE_JOB_STATE_H_
#define SLUICE_PS_SERVER_COORDINATOR_CORE_JOB_STATE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/ids.h"
#include "common/telemetry/counter_table.h"
#include "common/telemetry/logged_values.h"
#include "ps_server/coordinator/core/counters.h"
#include "ps_server/coordinator/core/task_times.h"
#include "ps_server/decisions/events.h"

namespace sluice {

enum class Phase {
  kStarting,
  kRunning,
  kFinishing,
  kFinished,
  kFailed,
  kRecovering,  // This generation is over, the next one follows.
};

// Dead is who is known to have ended. Who has only fallen silent is cut off: it
// may live, and come back.
enum class PeerLife { kMissing, kAlive, kSuspect, kDead, kCutOff, kLeft };

struct WorkerState {
  WorkerId id;
  PeerLife life = PeerLife::kMissing;
  bool computing = false;  // Has a live task; else it waits.
  Incarnation incarnation;
  absl::Time last_heard;
  GradientCounts gradients;
  std::string process;
  CounterMap counters;                    // Its own, as it has said last.
  std::vector<std::string> members = {};  // Of several processes: all of them.
  std::string last_loss = {};  // Why its newest life that is over ended.
  std::string place = {};  // "group 1, slot 2"; empty: groups have one slot.
  bool extra = false;      // Above cluster.workers: nobody waits for it.
};

struct ShardState {
  ShardId id;
  PeerLife life = PeerLife::kMissing;
  Version version;
  absl::Time last_heard;
  std::string address;
  std::string process;
  CounterMap counters;  // Its own, as it has said last.
};

// Checkpoints of this generation.
struct CheckpointState {
  std::optional<Version> newest;  // That is whole.
  CheckpointCounters counters;
  std::string last_error;  // Why the last one that failed was given up.
  std::optional<Version> writing;
  absl::Time writing_since;
};

// What recoveries have cost the run so far.
struct RecoveryState {
  Version restored;          // Where this generation began.
  int64_t updates_lost = 0;  // Decided and rolled back, in all.
  std::string reason;        // Why the generation before this one ended.
};

// How a run stands, as a plain value: what the status page, the metrics and
// the summary are made from.
struct JobState {
  Phase phase = Phase::kStarting;
  std::string message;  // Why it ended, or what failed.
  // Why somebody has asked for the end of the run, if so.
  std::optional<std::string> stop_requested;
  Generation generation;
  Version version;  // Decided.
  RunCounters counters;
  double epoch = 0;
  double progress = 0;       // Share of the run done, 0 to 1.
  double loss = 0;           // Of training, smoothed.
  double learning_rate = 0;  // Of the last commit.
  int k = 1;                 // Gradients of the next update if none is short.
  LoggedValues logged;       // By users' programs, smoothed.
  std::optional<Evaluation> last_evaluation;
  std::optional<Evaluation> final_evaluation;
  std::optional<CheckpointState> checkpoints;  // Where the job has them.
  std::optional<RecoveryState> recovery;       // From the second generation on.
  absl::Time started;      // When training began; the epoch before that.
  absl::Duration running;  // From then until now or the end.
  double mean_staleness = 0;
  // Applied gradients by staleness; the last bin holds all above.
  std::vector<int64_t> staleness_histogram;
  TaskTimes task_times;  // In this generation.
  std::vector<WorkerState> workers;
  std::vector<ShardState> shards;
  PeerLife evaluator = PeerLife::kMissing;
  // Whom it waits for, as a person reads it; empty when it waits for nobody.
  std::string waiting_for;
  absl::Time waiting_since;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_CORE_JOB_STATE_H_

#ifndef SLUICE_PS_SERVER_COORDINATOR_CORE_COORDINATOR_OPTIONS_H_
#define SLUICE_PS_SERVER_COORDINATOR_CORE_COORDINATOR_OPTIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/ids.h"
#include "proto/job.pb.h"
#include "ps_server/coordinator/core/training_snapshot.h"

namespace sluice {

// The checkpoints that earlier generations have left, by (generation, version).
struct EarlierCheckpoints {
  std::vector<std::pair<Generation, Version>> there = {};    // Oldest first.
  std::vector<std::pair<Generation, Version>> damaged = {};  // Proven to be so.
  // The one that was read whole and is gone on from; (0, 0): none.
  std::pair<Generation, Version> read_whole = {};
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

// What a coordinator works by.
struct CoordinatorOptions {
  proto::Job job;             // Resolved: every optional field is set.
  int64_t train_samples = 1;  // Of the training split.
  // Bases of a gradient, where workers have several members
  // (ParameterLayout::SlicesCutAt); 0: one of each shard.
  int bases = 0;

  Generation generation{1};
  std::string grant_secret;  // Drawn anew for every generation.
  std::string run_id = {};
  // Where it begins; absent: at version 0. REQUIRES: CheckRecoveryPoint.
  std::optional<ResumePoint> resume;
  RecoveryOptions recovery;
  EarlierCheckpoints earlier_checkpoints;
  // What the run has agreed to compute with; unspecified: nothing yet.
  proto::InstructionSet instruction_set = proto::INSTRUCTION_SET_UNSPECIFIED;
  // What it began with, in an earlier generation (InputAgreement::Agreed).
  std::map<std::string, std::string> inputs = {};

  absl::Duration finish_timeout = absl::Seconds(60);  // For the evaluator.
  absl::Duration tick = absl::Milliseconds(100);
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_CORE_COORDINATOR_OPTIONS_H_

#ifndef SLUICE_SIM_TESTING_LINEAGE_CHECKER_H_
#define SLUICE_SIM_TESTING_LINEAGE_CHECKER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ps_server/checkpoint/checkpoint.h"
#include "ps_server/coordinator/coordinator_options.h"
#include "ps_server/coordinator/testing/invariant_checker.h"
#include "ps_server/resume.h"
#include "sim/testing/reference_weights.h"

namespace sluice {

// The generations of one run as they really were, to hold against what is
// found on the disk: what each went on from, what was decided in it, and what
// every version's weights must be. Over the whole lineage
//
//   - a generation is taken once;
//   - it goes on from the newest checkpoint that is whole, which says what was
//     done as of that version; from version 0 only where there is none;
//   - so a mini-batch is in one update from version 0 on, and under SYNC every
//     version is bitwise that of a run in which nothing happened;
//   - every task has one end; those of a generation that was cut off are
//     counted as lost.
//
// Keeps the first violation. Not thread-safe.
class LineageChecker {
 public:
  // `options`: of the job; the generation and the rest are each lead's.
  explicit LineageChecker(const CoordinatorOptions& options);

  struct Branch {
    explicit Branch(const CoordinatorOptions& options,
                    const ReferenceWeights* parent)
        : checker(options), weights(options, parent) {}
    InvariantChecker checker;
    ReferenceWeights weights;
  };
  // A generation begins with these options.
  Branch& Begin(const CoordinatorOptions& options);
  // Null: no such generation was taken.
  Branch* Find(Generation generation);

  // Somebody looks for where to go on, and this is what FindRecovery said.
  // What was `certain`ly counted: every task on the disk was.
  void Resumes(const Resumption& found, bool certain);
  // That a commit was recorded; holds its weights against SYNC's.
  void Committed(Generation generation, const RecordCommit& commit);

  // What becomes of a checkpoint: its manifest is being written, is on the
  // disk, is being removed, is gone. Cut off in between, it is there or not.
  void Writing(CheckpointId id) { stored_[id] = Stored::kPerhaps; }
  void Written(CheckpointId id) { stored_[id] = Stored::kWhole; }
  void Removing(CheckpointId id);
  void Removed(CheckpointId id) { stored_.erase(id); }

  // The run has ended in this generation, at this version. Reads the logs in
  // `run_dir` as one.
  void CheckEnd(const std::string& run_dir, Version version);
  // The first rule that was broken; empty if none was.
  std::string Violation() const;

  int64_t tasks() const;    // Of all generations.
  int64_t updates() const;  // The same.
  int64_t checkpoints() const;

 private:
  enum class Stored { kPerhaps, kWhole };

  void Expect(bool holds, const std::string& rule);
  void CheckPoint(const ResumePoint& point);

  const CoordinatorOptions options_;
  const std::vector<float> undisturbed_;  // By version; empty but for SYNC.
  std::map<Generation, std::unique_ptr<Branch>> branches_;
  std::map<CheckpointId, Stored> stored_;
  std::string violation_;
};

}  // namespace sluice

#endif  // SLUICE_SIM_TESTING_LINEAGE_CHECKER_H_

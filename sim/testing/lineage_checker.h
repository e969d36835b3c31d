#ifndef SLUICE_SIM_TESTING_LINEAGE_CHECKER_H_
#define SLUICE_SIM_TESTING_LINEAGE_CHECKER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ps_server/checkpoint/checkpoint.h"
#include "ps_server/coordinator/core/coordinator_options.h"
#include "ps_server/coordinator/testing/invariant_checker.h"
#include "ps_server/resume.h"
#include "sim/testing/reference_weights.h"

namespace sluice {

// The true history of a run's generations, to compare with what is found on
// disk: what each generation resumed from, what was decided in it, and the
// weights that every version must have. Over the whole lineage
//
//   - a generation is taken once;
//   - it resumes from the newest whole checkpoint, which lists what was done as
//     of that version, and from version 0 only if there is none;
//   - so a mini-batch is in one update from version 0 on, and under SYNC every
//     version is bitwise that of an undisturbed run;
//   - every task has one end; the tasks of a generation that was cut off are
//     counted as lost.
//
// Keeps the first violation. Not thread-safe.
class LineageChecker {
 public:
  // `options`: of the job. The generation and its start differ by lead.
  explicit LineageChecker(const CoordinatorOptions& options);

  struct Branch {
    explicit Branch(const CoordinatorOptions& options,
                    const ReferenceWeights* parent)
        : checker(options), weights(options, parent) {}
    InvariantChecker checker;
    ReferenceWeights weights;
  };
  // Begins a generation with these options.
  Branch& Begin(const CoordinatorOptions& options);
  // Null if no such generation was taken.
  Branch* Find(Generation generation);

  // Checks the result of FindRecovery. `certain`: every task is in the logs, so
  // the count of lost tasks must be exact.
  void Resumes(const Resumption& found, bool certain);
  // Records a commit. Under SYNC also checks its weights.
  void Committed(Generation generation, const RecordCommit& commit);

  // States of a checkpoint: its manifest is being written, is on disk, is being
  // removed, is gone. If it is cut off in between, it may or may not be there.
  void Writing(CheckpointId id) { stored_[id] = Stored::kPerhaps; }
  void Written(CheckpointId id) { stored_[id] = Stored::kWhole; }
  void Removing(CheckpointId id);
  void Removed(CheckpointId id) { stored_.erase(id); }

  // Checks that the run ended in this version, by reading the logs in `run_dir`
  // as one.
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
  // Weights by version; empty for policies other than SYNC.
  const std::vector<float> undisturbed_;
  std::map<Generation, std::unique_ptr<Branch>> branches_;
  std::map<CheckpointId, Stored> stored_;
  std::string violation_;
};

}  // namespace sluice

#endif  // SLUICE_SIM_TESTING_LINEAGE_CHECKER_H_

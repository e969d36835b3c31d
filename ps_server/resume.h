#ifndef SLUICE_PS_SERVER_RESUME_H_
#define SLUICE_PS_SERVER_RESUME_H_

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/files/file_operations.h"
#include "common/ids.h"
#include "common/job/resolved_job.h"
#include "common/parameter_layout.h"
#include "ps_server/checkpoint/checkpoint.h"
#include "ps_server/coordinator/core/training_snapshot.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// Where a run goes on, and as which generation.
struct Resumption {
  Generation generation;
  ResumePoint point;
  // Tasks of earlier generations that count as lost: what was decided after the
  // version, or was under way. `point` counts them too.
  int64_t lost = 0;
  // Issued in all generations.
  int64_t tasks = 0;
  // Versions that were decided and are rolled back, in all generations.
  int64_t updates_lost = 0;
  // What was passed over as damaged, and why.
  std::vector<absl::Status> passed_over;
  // The checkpoints that there are, oldest first, and those of them that are
  // proven to be damaged.
  std::vector<CheckpointId> there;
  std::vector<CheckpointId> damaged;
  // Empty: the run is of before there were any.
  std::string run_id;
  // What it has agreed to compute with; unspecified: nothing yet.
  proto::InstructionSet instruction_set = proto::INSTRUCTION_SET_UNSPECIFIED;
  // What it began with (LogInputs); empty: not known.
  std::map<std::string, std::string> inputs = {};
};

// What whoever looks already knows of the run; what is found must fit it.
struct KnownRun {
  // Empty: not known. Else there has been a run, and it has this id.
  std::string id = {};
  // A checkpoint that was whole, by (generation, version); 0, 0: none.
  std::pair<Generation, Version> stored = {};
  // The newest generation that this process has taken; 0: none. A later one
  // than it is another process's.
  Generation generation = {};
};

// Looks in the run folder for the newest whole checkpoint and checks that `job`
// can go on from it. Reads all of it, and changes nothing. Only what was read
// and is wrong is passed over as damaged.
//
// kNotFound: no run has been there, or it has no whole checkpoint (says which
// are damaged, and how). kFailedPrecondition: the checkpoint is of another job
// or model, naming the first field or tensor that differs and both values; the
// run has reached its end; or another id. kUnavailable: something cannot be
// read, or is known to have been there and is missing: names it.
absl::StatusOr<Resumption> FindResumption(
    const ResolvedJob& job, const std::string& run_dir,
    const KnownRun& known = {}, FileOperations* files = FileOperations::Real());

// The same for a run that is to recover by itself: where there is no whole
// checkpoint it goes back to version 0 (`point.generation` is 0 then), and one
// that has reached its end may still have to end. Nullopt: no run has been
// there, and none is known of.
//
// kOutOfRange: the run has reached its end, or was stopped and there is its
// kFarewell, and its summary is there: nothing is left to be done.
// kPermissionDenied: another process has taken a later generation than `known`.
// kFailedPrecondition: as above, but for the run's end. kUnavailable: as above.
absl::StatusOr<std::optional<Resumption>> FindRecovery(
    const ResolvedJob& job, const std::string& run_dir,
    const KnownRun& known = {}, FileOperations* files = FileOperations::Real());

// The arrays of `range` that `of` is to restore, from the run folder or, as its
// manifest says, from disks of shards' own; as
// ShardOptions::stored_version wants them. Errors as Checkpoint::Open and Read,
// and kFailedPrecondition as above.
absl::StatusOr<std::vector<std::vector<float>>> ReadStoredVersion(
    const ResolvedJob& job, const std::string& run_dir, const Restore& of,
    ParameterRange range, FileOperations* files = FileOperations::Real());

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_RESUME_H_

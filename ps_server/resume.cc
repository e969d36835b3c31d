#include "ps_server/resume.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/status_macros.h"
#include "ps_server/checkpoint/checkpoint.h"
#include "ps_server/checkpoint/manifest.h"
#include "ps_server/coordinator/check_resume_point.h"
#include "ps_server/coordinator/coordinator_options_from_job.h"
#include "ps_server/coordinator/generations.h"
#include "ps_server/coordinator/snapshot_conversion.h"
#include "ps_server/shard_options_from_job.h"

namespace sluice {
namespace {

std::string Describe(const std::string& name,
                     const std::vector<int64_t>& shape) {
  return absl::StrCat(name, " (", absl::StrJoin(shape, ", "), ")");
}

// The first tensor that differs; empty where none does.
std::string DescribeTensors(const ParameterLayout& here,
                            const proto::CheckpointManifest& there) {
  const auto& tensors = here.tensors();
  const int mine = static_cast<int>(tensors.size());
  for (int t = 0; t < std::max(mine, there.tensor_size()); ++t) {
    const std::string expected =
        t < mine ? Describe(tensors[t].name, tensors[t].shape) : "no more";
    const std::string found =
        t < there.tensor_size()
            ? Describe(there.tensor(t).name(), {there.tensor(t).shape().begin(),
                                                there.tensor(t).shape().end()})
            : "no more";
    if (expected != found) {
      return absl::StrCat("tensor ", t, " is ", found, ", the job's is ",
                          expected);
    }
  }
  return "";
}

// Whether the checkpoint holds what `job` needs.
absl::Status CheckContents(const Checkpoint& checkpoint,
                           const ResolvedJob& job) {
  const proto::CheckpointManifest& manifest = checkpoint.manifest();
  const std::string tensors = DescribeTensors(job.layout, manifest);
  if (!tensors.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(checkpoint.folder(), ": ", tensors));
  }
  const std::vector<std::string> arrays = StoredArrays(job);
  const std::vector<std::string> found(manifest.array().begin(),
                                       manifest.array().end());
  if (found == arrays) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      checkpoint.folder(), ": holds ", absl::StrJoin(found, ", "),
      "; the job's optimizer needs ", absl::StrJoin(arrays, ", ")));
}

absl::Status NoneWhole(const std::string& run_dir,
                       const std::vector<absl::Status>& refused) {
  std::string text =
      absl::StrCat(run_dir, ": has no whole checkpoint to go on from");
  for (const absl::Status& status : refused) {
    absl::StrAppend(&text, "\n  ", status.message());
  }
  return absl::NotFoundError(text);
}

// The job that the run in the folder had; nullopt where it had not come so far
// as to write it down.
std::optional<std::string> ReadRunsJob(const std::string& run_dir) {
  std::ifstream file(absl::StrCat(run_dir, "/job.textproto"));
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// `there`: the job that the run had.
absl::Status CheckSameJob(const ResolvedJob& job, const std::string& there,
                          const std::string& run_dir) {
  const std::string difference =
      DescribeDifferenceToResume(FormatJob(job.job), there);
  if (difference.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(run_dir, ": the run has another job: ", difference));
}

absl::StatusOr<ResumePoint> PointOf(const Checkpoint& checkpoint,
                                    const ResolvedJob& job,
                                    const std::string& run_dir) {
  const proto::CheckpointManifest& manifest = checkpoint.manifest();
  SLUICE_RETURN_IF_ERROR(CheckSameJob(job, manifest.job(), run_dir));
  SLUICE_RETURN_IF_ERROR(CheckContents(checkpoint, job));
  ResumePoint point;
  point.generation = Generation(manifest.generation());
  point.version = Version(manifest.version());
  point.snapshot = SnapshotFromProto(manifest.state());
  return point;
}

CoordinatorOptions OptionsAt(const ResolvedJob& job, const ResumePoint& point) {
  CoordinatorOptions options =
      CoordinatorOptionsFromJob(job, /*grant_secret=*/0);
  options.resume = point;
  return options;
}

absl::Status InRun(const std::string& run_dir, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::FailedPreconditionError(
      absl::StrCat(run_dir, ": ", status.message()));
}

// Going on from `point` after `generations`: what is lost.
Resumption GoOnFrom(ResumePoint point,
                    const std::vector<Generation>& generations,
                    std::vector<absl::Status> passed_over,
                    const std::string& run_dir) {
  Resumption resumption;
  resumption.passed_over = std::move(passed_over);
  resumption.generation = std::max(generations.back(), point.generation) + 1;
  const PastGenerations past = SumUp(run_dir, &resumption.passed_over);
  resumption.tasks = past.tasks;
  resumption.updates_lost =
      past.updates_lost +
      std::max<int64_t>(0, past.newest.value() - point.version.value());
  // Whatever the version does not count.
  GradientCounts& counts = point.snapshot.totals.gradients;
  const int64_t lost =
      std::max<int64_t>(0, past.tasks - counts.applied - counts.cancelled -
                               counts.dropped - counts.rejected);
  resumption.lost = std::max<int64_t>(0, lost - counts.lost);
  counts.lost = lost;
  resumption.point = std::move(point);
  return resumption;
}

}  // namespace

absl::StatusOr<Resumption> FindResumption(const ResolvedJob& job,
                                          const std::string& run_dir) {
  const std::vector<Generation> generations = ListGenerations(run_dir);
  if (generations.empty()) {
    return absl::NotFoundError(absl::StrCat(
        run_dir, ": has no commit_log, expected the folder of a run"));
  }
  NewestCheckpoint newest = OpenNewestCheckpoint(run_dir);
  if (!newest.checkpoint.has_value()) return NoneWhole(run_dir, newest.refused);
  SLUICE_ASSIGN_OR_RETURN(ResumePoint point,
                          PointOf(*newest.checkpoint, job, run_dir));
  SLUICE_RETURN_IF_ERROR(
      InRun(run_dir, CheckResumePoint(OptionsAt(job, point))));
  return GoOnFrom(std::move(point), generations, std::move(newest.refused),
                  run_dir);
}

absl::StatusOr<std::optional<Resumption>> FindRecovery(
    const ResolvedJob& job, const std::string& run_dir) {
  const std::vector<Generation> generations = ListGenerations(run_dir);
  if (generations.empty()) return std::nullopt;
  NewestCheckpoint newest = OpenNewestCheckpoint(run_dir);
  ResumePoint point;
  if (newest.checkpoint.has_value()) {
    SLUICE_ASSIGN_OR_RETURN(point, PointOf(*newest.checkpoint, job, run_dir));
    SLUICE_RETURN_IF_ERROR(
        InRun(run_dir, CheckRecoveryPoint(OptionsAt(job, point))));
  } else if (const auto there = ReadRunsJob(run_dir); there.has_value()) {
    SLUICE_RETURN_IF_ERROR(CheckSameJob(job, *there, run_dir));
  }
  return GoOnFrom(std::move(point), generations, std::move(newest.refused),
                  run_dir);
}

absl::StatusOr<std::vector<std::vector<float>>> ReadStoredVersion(
    const ResolvedJob& job, const std::string& run_dir, const Restore& of,
    ParameterRange range) {
  SLUICE_ASSIGN_OR_RETURN(
      const Checkpoint checkpoint,
      Checkpoint::Open(CheckpointFolder(run_dir, {of.checkpoint, of.version})));
  SLUICE_RETURN_IF_ERROR(CheckContents(checkpoint, job));
  std::vector<std::vector<float>> arrays;
  for (const std::string& name : StoredArrays(job)) {
    SLUICE_ASSIGN_OR_RETURN(arrays.emplace_back(),
                            checkpoint.Read(name, range));
  }
  return arrays;
}

}  // namespace sluice

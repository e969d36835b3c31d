// What the run's past says of where it goes on. The checkpoint says what
// counts; the logs say what there was besides, which is then lost:
//
//   generation 1      60 tasks issued, versions up to 11 decided
//   checkpoint 8      of its tasks 30 are applied and 2 cancelled
//   the next one      generation 2, from version 8
//                     updates_lost 11 - 8 = 3
//                     counts.lost 60 - 30 - 2 = 28: they add up to all tasks
//
// A file that cannot be read is not one that is damaged. Only what was read and
// is wrong is passed over; all else is kUnavailable, and tried again: going
// back to an older checkpoint because a disk was slow would throw work away.
#include "ps_server/resume.h"

#include <google/protobuf/text_format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/files/input_file.h"
#include "common/status_macros.h"
#include "nlohmann/json.hpp"
#include "ps_server/checkpoint/manifest.h"
#include "ps_server/coordinator/log/generations.h"
#include "ps_server/coordinator/report/run_summary.h"
#include "ps_server/coordinator/report/snapshot_conversion.h"
#include "ps_server/coordinator/versions/check_resume_point.h"
#include "ps_server/shard_options_from_job.h"

namespace sluice {
namespace {

constexpr char kJob[] = "job.textproto";

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

// A file of the run; nullopt where the run had not come so far as to write it.
absl::StatusOr<std::optional<std::string>> ReadIfThere(
    const std::string& run_dir, const std::string& name,
    FileOperations* files) {
  const auto file = InputFile::Open(absl::StrCat(run_dir, "/", name), files);
  if (absl::IsNotFound(file.status())) {
    SLUICE_RETURN_IF_ERROR(ProveMissing(run_dir, name, files));
    return std::nullopt;
  }
  SLUICE_RETURN_IF_ERROR(file.status());
  std::string text(static_cast<size_t>(file->size()), '\0');
  SLUICE_RETURN_IF_ERROR(file->ReadAt(0, file->size(), text.data()));
  return text;
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

CoordinatorOptions OptionsAt(const ResolvedJob& job, const ResumePoint& point) {
  CoordinatorOptions options;
  options.job = job.job;
  options.train_samples = job.data.train_samples;
  options.resume = point;
  return options;
}

absl::Status InRun(const std::string& run_dir, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::FailedPreconditionError(
      absl::StrCat(run_dir, ": ", status.message()));
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
  if (std::any_of(manifest.file().begin(), manifest.file().end(),
                  [](const auto& file) { return !file.path().empty(); })) {
    // The shards need nothing of the training's state, which may be large: a
    // message to them has a limit.
    proto::CheckpointManifest sent = manifest;
    sent.clear_state();
    point.manifest = EncodeManifest(sent);
  }
  proto::Job before;
  if (google::protobuf::TextFormat::ParseFromString(manifest.job(), &before)) {
    SLUICE_RETURN_IF_ERROR(
        InRun(run_dir, CheckLastTask(before, OptionsAt(job, point))));
  }
  return point;
}

absl::Status NoRun(const std::string& run_dir, const KnownRun& known) {
  return absl::UnavailableError(
      absl::StrCat(run_dir, ": holds no commit_log, expected that of run ",
                   known.id, ": is the folder there, and mounted?"));
}

// A run's past.
struct Past {
  std::vector<Generation> generations;  // At least one.
  NewestCheckpoint newest;
  ResumePoint point;  // Of `newest`; version 0 where there is none.
  PastGenerations sums;
  std::vector<absl::Status> problems;  // Of its logs.
};

// Whether there is a folder for checkpoints, if the run was to have any.
absl::Status CheckFolder(const std::string& run_dir, FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(const auto text, ReadIfThere(run_dir, kJob, files));
  proto::Job run;
  if (!text.has_value() ||
      !google::protobuf::TextFormat::ParseFromString(*text, &run) ||
      !run.has_checkpoint()) {
    return absl::OkStatus();
  }
  SLUICE_ASSIGN_OR_RETURN(const auto names, files->List(run_dir));
  if (absl::c_linear_search(names, "checkpoints")) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(run_dir,
                   "/checkpoints: is not there, expected the folder that the "
                   "run has made for its checkpoints"));
}

// Whether this is the run that is known, and has what it had.
absl::Status CheckKnown(const std::string& run_dir, const KnownRun& known,
                        const Past& past) {
  const std::string& id = past.sums.run_id;
  if (!known.id.empty() && !id.empty() && known.id != id) {
    return absl::FailedPreconditionError(
        absl::StrCat(run_dir, ": holds run ", id, ", expected run ", known.id));
  }
  const CheckpointId stored{known.stored.first, known.stored.second};
  const CheckpointId found{past.point.generation, past.point.version};
  const auto& damaged = past.newest.damaged;
  if (found < stored &&
      std::find(damaged.begin(), damaged.end(), stored) == damaged.end()) {
    return absl::UnavailableError(
        absl::StrCat(CheckpointFolder(run_dir, stored),
                     ": is not there, expected this checkpoint or a newer one: "
                     "it was whole before"));
  }
  if (past.sums.had_checkpoint && past.newest.there.empty()) {
    return absl::UnavailableError(
        absl::StrCat(run_dir,
                     "/checkpoints: holds none, expected one: the run has gone "
                     "on from a checkpoint before"));
  }
  return absl::OkStatus();
}

// A run that has reached the end that `job` gives it, and whose summary is
// there.
struct EndedRun {
  Version version;
  std::string reason;
};
absl::StatusOr<std::optional<EndedRun>> ReadEnd(const ResolvedJob& job,
                                                const std::string& run_dir,
                                                FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(const auto text,
                          ReadIfThere(run_dir, "summary.json", files));
  const auto summary = nlohmann::json::parse(text.value_or(""), nullptr,
                                             /*allow_exceptions=*/false);
  if (!summary.is_object() ||
      summary.value("reached", nlohmann::json()) != StopText(job.job.stop())) {
    return std::nullopt;
  }
  const auto version = summary.find("version");
  const auto reason = summary.find("reason");
  if (version == summary.end() || !version->is_number_integer() ||
      reason == summary.end() || !reason->is_string()) {
    return std::nullopt;
  }
  return EndedRun{Version(version->get<int64_t>()), reason->get<std::string>()};
}

std::string ReachedItsEnd(const std::string& run_dir, const EndedRun& run) {
  return absl::StrCat(run_dir, ": the run has reached its end: ", run.reason,
                      "; a larger `stop` would let it go on");
}

// Whether the run was stopped, its summary is there, and not everybody has
// heard of it.
absl::StatusOr<bool> IsFarewell(const std::string& run_dir,
                                FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(const auto farewell,
                          ReadIfThere(run_dir, kFarewell, files));
  SLUICE_ASSIGN_OR_RETURN(const auto summary,
                          ReadIfThere(run_dir, "summary.json", files));
  return farewell.has_value() && summary.has_value();
}

// Nullopt: no run has been there.
absl::StatusOr<std::optional<Past>> ReadPast(const ResolvedJob& job,
                                             const std::string& run_dir,
                                             const KnownRun& known,
                                             FileOperations* files) {
  Past past;
  SLUICE_ASSIGN_OR_RETURN(past.generations, ListGenerations(run_dir, files));
  if (past.generations.empty()) return std::nullopt;
  const Generation newest = past.generations.back();
  if (known.generation > Generation(0) && newest > known.generation) {
    return absl::PermissionDeniedError(absl::StrCat(
        run_dir, ": another process has taken generation ", newest.value(),
        " of the run: this one, which had generation ",
        known.generation.value(), ", is over"));
  }
  SLUICE_ASSIGN_OR_RETURN(past.newest, OpenNewestCheckpoint(run_dir, files));
  if (past.newest.checkpoint.has_value()) {
    SLUICE_ASSIGN_OR_RETURN(past.point,
                            PointOf(*past.newest.checkpoint, job, run_dir));
  }
  SLUICE_ASSIGN_OR_RETURN(past.sums, SumUp(run_dir, &past.problems, files));
  SLUICE_RETURN_IF_ERROR(CheckKnown(run_dir, known, past));
  if (past.newest.there.empty()) {
    SLUICE_RETURN_IF_ERROR(CheckFolder(run_dir, files));
  }
  return past;
}

// Going on from where `past` ends: what is lost.
Resumption GoOnFrom(Past past) {
  Resumption resumption;
  resumption.passed_over = std::move(past.newest.refused);
  resumption.passed_over.insert(resumption.passed_over.end(),
                                past.problems.begin(), past.problems.end());
  resumption.there = std::move(past.newest.there);
  resumption.damaged = std::move(past.newest.damaged);
  resumption.run_id = past.sums.run_id;
  resumption.instruction_set = past.sums.instruction_set;
  resumption.inputs = past.sums.inputs;
  resumption.tasks = past.sums.tasks;
  ResumePoint& point = past.point;
  resumption.generation =
      std::max(past.generations.back(), point.generation) + 1;
  resumption.updates_lost =
      past.sums.updates_lost +
      std::max<int64_t>(0, past.sums.newest.value() - point.version.value());
  // Whatever the version does not count.
  GradientCounts& counts = point.snapshot.totals.counters;
  const int64_t lost =
      std::max<int64_t>(0, past.sums.tasks - counts.applied - counts.cancelled -
                               counts.dropped - counts.rejected);
  resumption.lost = std::max<int64_t>(0, lost - counts.lost);
  counts.lost = lost;
  resumption.point = std::move(point);
  return resumption;
}

// The checkpoint that is to be restored.
absl::StatusOr<Checkpoint> CheckpointOf(const std::string& run_dir,
                                        const Restore& of,
                                        FileOperations* files) {
  const std::string folder =
      CheckpointFolder(run_dir, {of.checkpoint, of.version});
  if (of.manifest.empty()) return Checkpoint::Open(folder, files);
  SLUICE_ASSIGN_OR_RETURN(
      proto::CheckpointManifest manifest,
      DecodeManifest("the coordinator's manifest", of.manifest));
  return Checkpoint::OfManifest(folder, std::move(manifest), files);
}

}  // namespace

absl::StatusOr<Resumption> FindResumption(const ResolvedJob& job,
                                          const std::string& run_dir,
                                          const KnownRun& known,
                                          FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(std::optional<Past> past,
                          ReadPast(job, run_dir, known, files));
  if (!past.has_value()) {
    return absl::NotFoundError(absl::StrCat(
        run_dir, ": has no commit_log, expected the folder of a run"));
  }
  if (!past->newest.checkpoint.has_value()) {
    return NoneWhole(run_dir, past->newest.refused);
  }
  SLUICE_RETURN_IF_ERROR(
      InRun(run_dir, CheckResumePoint(OptionsAt(job, past->point))));
  SLUICE_ASSIGN_OR_RETURN(const auto end, ReadEnd(job, run_dir, files));
  // Where it ended beyond the checkpoint, whoever resumes it must decide.
  if (end.has_value() && end->version == past->point.version) {
    return absl::FailedPreconditionError(ReachedItsEnd(run_dir, *end));
  }
  return GoOnFrom(*std::move(past));
}

absl::StatusOr<std::optional<Resumption>> FindRecovery(
    const ResolvedJob& job, const std::string& run_dir, const KnownRun& known,
    FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(std::optional<Past> past,
                          ReadPast(job, run_dir, known, files));
  if (!past.has_value()) {
    if (!known.id.empty()) return NoRun(run_dir, known);
    return std::nullopt;
  }
  if (past->newest.checkpoint.has_value()) {
    SLUICE_RETURN_IF_ERROR(
        InRun(run_dir, CheckRecoveryPoint(OptionsAt(job, past->point))));
  } else {
    SLUICE_ASSIGN_OR_RETURN(const auto there,
                            ReadIfThere(run_dir, kJob, files));
    if (there.has_value()) {
      SLUICE_RETURN_IF_ERROR(CheckSameJob(job, *there, run_dir));
    }
  }
  SLUICE_ASSIGN_OR_RETURN(const auto end, ReadEnd(job, run_dir, files));
  if (end.has_value()) {
    return absl::OutOfRangeError(ReachedItsEnd(run_dir, *end));
  }
  SLUICE_ASSIGN_OR_RETURN(const bool farewell, IsFarewell(run_dir, files));
  if (farewell) {
    return absl::OutOfRangeError(
        absl::StrCat(run_dir, ": the run has been stopped"));
  }
  return GoOnFrom(*std::move(past));
}

absl::StatusOr<std::vector<std::vector<float>>> ReadStoredVersion(
    const ResolvedJob& job, const std::string& run_dir, const Restore& of,
    ParameterRange range, FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(const Checkpoint checkpoint,
                          CheckpointOf(run_dir, of, files));
  SLUICE_RETURN_IF_ERROR(CheckContents(checkpoint, job));
  std::vector<std::vector<float>> arrays;
  for (const std::string& name : StoredArrays(job)) {
    SLUICE_ASSIGN_OR_RETURN(arrays.emplace_back(),
                            checkpoint.Read(name, range));
  }
  return arrays;
}

}  // namespace sluice

#include "ps_server/coordinator/log/run_files.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/atomic_file.h"
#include "common/files/file_operations.h"
#include "common/files/input_file.h"
#include "common/job/stage_plan.h"
#include "common/status_macros.h"
#include "ps_server/coordinator/log/generations.h"
#include "ps_server/coordinator/log/goodput.h"
#include "ps_server/coordinator/log/run_claim.h"
#include "ps_server/coordinator/report/run_summary.h"

namespace sluice {
namespace {

// Commit logs up to this size are read once more when the run is over, to
// measure what the workers' time went into: 600,000 tasks, which take 3 s. Who
// wants it of a longer run asks for it (sluice goodput).
constexpr int64_t kMostMeasuredBytes = 64 << 20;

// Of all generations.
absl::StatusOr<int64_t> BytesOfLogs(const std::string& run_dir) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<LogFile> files,
                          AllCommitLogFiles(run_dir));
  int64_t bytes = 0;
  for (const LogFile& file : files) {
    SLUICE_ASSIGN_OR_RETURN(const InputFile opened, InputFile::Open(file.path));
    bytes += opened.size();
  }
  return bytes;
}

}  // namespace

RunFiles::RunFiles(const proto::Job& job, Generation generation,
                   std::string run_dir)
    : job_(job), generation_(generation), run_dir_(std::move(run_dir)) {}

std::string RunFiles::Path(const std::string& name) const {
  return absl::StrCat(run_dir_, "/", name);
}

absl::Status RunFiles::TakeGeneration(const std::string& job_fingerprint,
                                      const std::vector<int64_t>& base_begin,
                                      const GenerationStart& start) {
  proto::LogHeader header;
  header.set_generation(start.generation.value());
  header.set_parent_generation(start.parent.value());
  header.set_restored_version(start.restored.value());
  header.set_job_fingerprint(job_fingerprint);
  header.set_reason(start.reason);
  header.set_shards(job_.cluster().shards());
  header.mutable_past()->set_tasks(start.tasks);
  header.mutable_past()->set_updates_lost(start.updates_lost);
  header.mutable_past()->set_newest_version(start.restored.value());
  header.mutable_past()->set_instruction_set(start.instruction_set);
  if (!start.inputs.empty()) {
    header.mutable_past()->mutable_inputs()->mutable_inputs()->insert(
        start.inputs.begin(), start.inputs.end());
  }
  header.set_run_id(start.run_id);
  for (const int64_t begin : base_begin) header.add_base_begin(begin);
  auto log = CommitLogWriter::Create(CommitLogPath(run_dir_, start.generation),
                                     header);
  if (absl::IsAlreadyExists(log.status())) {
    if (start.generation > Generation(1)) {
      return absl::PermissionDeniedError(
          absl::StrCat(run_dir_, ": generation ", start.generation.value(),
                       " has just been taken by another process"));
    }
    return absl::AlreadyExistsError(absl::StrCat(
        run_dir_,
        ": holds the commit log of another run; --run-dir must be a new "
        "folder, or shard 0 be given --resume to go on with that run"));
  }
  SLUICE_ASSIGN_OR_RETURN(log_, std::move(log));
  SLUICE_RETURN_IF_ERROR(log_->Sync());
  // Syncs the folder.
  FileOperations disk;
  return MakeClaim(run_dir_, start.generation, &disk);
}

absl::StatusOr<std::unique_ptr<RunFiles>> RunFiles::Create(
    const ResolvedJob& job, const GenerationStart& start,
    const std::string& run_dir) {
  std::unique_ptr<RunFiles> files(
      new RunFiles(job.job, start.generation, run_dir));
  SLUICE_RETURN_IF_ERROR(MakeFolders(run_dir));
  // Once there is a generation, checkpoints that are not there are away.
  if (job.job.has_checkpoint()) {
    SLUICE_RETURN_IF_ERROR(MakeFolders(files->Path("checkpoints")));
  }
  std::vector<int64_t> base_begin;
  if (const auto cuts = MemberCuts(job); !cuts.empty()) {
    for (const ShardSlice& slice : job.layout.SlicesCutAt(cuts)) {
      base_begin.push_back(slice.range.begin);
    }
  }
  absl::Status made = files->TakeGeneration(job.fingerprint, base_begin, start);
  if (made.ok()) made = files->MakeOthers(start.generation);
  if (made.ok()) return files;
  // Nothing has come of the generation: whoever tries again may take it. Where
  // there is a later one its log stays, as that of one that never began.
  if (files->log_ != nullptr && !absl::IsPermissionDenied(made)) {
    FileOperations disk;
    return WithoutLog(made, files->log_->path(), &disk);
  }
  return made;
}

absl::Status RunFiles::MakeOthers(Generation generation) {
  const bool first = generation == Generation(1);
  SLUICE_ASSIGN_OR_RETURN(metrics_,
                          MetricsWriter::Create(Path("metrics.jsonl")));
  SLUICE_ASSIGN_OR_RETURN(
      compute_times_, ComputeTimesWriter::Create(Path("compute_times.txt")));
  const std::string resolved = Path("job.textproto");
  std::error_code error;
  has_earlier_summary_ =
      !first && std::filesystem::exists(Path("summary.json"), error);
  if (!first || !std::filesystem::exists(resolved, error)) {
    SLUICE_RETURN_IF_ERROR(WriteFileAtomically(resolved, {FormatJob(job_)}));
  }
  return absl::OkStatus();
}

std::optional<WorkerSeconds> RunFiles::MeasureTime() const {
  const auto bytes = BytesOfLogs(run_dir_);
  if (!bytes.ok() || *bytes > kMostMeasuredBytes) return std::nullopt;
  const absl::StatusOr<Goodput> goodput = ReadRunGoodput(run_dir_);
  if (!goodput.ok()) return std::nullopt;
  return goodput->Total();
}

absl::Status RunFiles::Prove() const {
  FileOperations disk;
  absl::MutexLock lock(&proof_mu_);
  return ProveClaim(run_dir_, generation_, &disk);
}

absl::Status RunFiles::WriteAddresses(const std::string& text) const {
  SLUICE_RETURN_IF_ERROR(Prove());
  return WriteFileAtomically(Path("addresses"), {text});
}

absl::Status RunFiles::GoesOn() {
  if (generation_ == Generation(1)) return absl::OkStatus();
  FileOperations disk;
  SLUICE_RETURN_IF_ERROR(Prove());
  SLUICE_RETURN_IF_ERROR(disk.Remove(Path(kFarewell)));
  SLUICE_RETURN_IF_ERROR(disk.Remove(Path("summary.json")));
  has_earlier_summary_ = false;
  return disk.Remove(Path("weights.safetensors"));
}

absl::Status RunFiles::WriteSummary(const JobState& state,
                                    const FinishRun& finish) {
  // Where the log cannot be written, the summary still says so.
  const absl::Status synced = log_->Sync();
  // Before the proof, which would be old otherwise.
  const std::optional<WorkerSeconds> time = MeasureTime();
  SLUICE_RETURN_IF_ERROR(Prove());
  if (finish.failure.empty() && state.stop_requested.has_value()) {
    SLUICE_RETURN_IF_ERROR(
        WriteFileAtomically(Path(kFarewell), {finish.reason, "\n"}));
  }
  SLUICE_RETURN_IF_ERROR(WriteFileAtomically(
      Path("summary.json"), {RunSummary(job_, state, finish, time)}));
  has_summary_ = true;
  return synced;
}

absl::Status RunFiles::Close(const JobState& state,
                             const std::optional<FinishRun>& finish) {
  const bool keeps =
      has_earlier_summary_ && finish.has_value() && !finish->failure.empty();
  const bool writes = finish.has_value() && !has_summary_ && !keeps;
  absl::Status closed = writes ? WriteSummary(state, *finish) : log_->Sync();
  if (!writes) closed.Update(compute_times_->Flush());
  if (finish.has_value()) {
    closed.Update(FileOperations().Remove(Path(kFarewell)));
  }
  return closed;
}

}  // namespace sluice

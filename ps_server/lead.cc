// How a lead that another one has replaced comes to know it. Taking generation
// g+1 means to create its commit log, which only one can:
//
//  - `superseded`, asked now and then, finds that file: this generation ends.
//  - `prove`, asked before a manifest is written or a checkpoint removed, moves
//    this generation's claim to and fro, which fails once the other has ended
//    it (run_claim.h). What it finds is kept in `lost_`, for `superseded`.
//  - The run's files do the same before the addresses are written; and before
//    the generation's first update and the summary, where it ends this
//    generation, so that nobody hears from it that the run is over.
//
// So a lead that was cut off for an hour, and wakes up, may still decide; but
// what it decides is nobody's, and it cannot touch what the run has come to.
#include "ps_server/lead.h"

#include <filesystem>
#include <system_error>
#include <utility>
#include <variant>

#include "common/grant.h"
#include "common/job/stage_plan.h"
#include "common/secret.h"
#include "common/status_macros.h"
#include "ps_server/addresses.h"
#include "ps_server/checkpoint/manifest.h"
#include "ps_server/coordinator/log/generations.h"
#include "ps_server/next_generation.h"
#include "ps_server/shard_options_from_job.h"

namespace sluice {
namespace {

CoordinatorService::Options ServiceOptions(const ResolvedJob& job,
                                           const std::string& run_id,
                                           Clock* clock) {
  const proto::Job& j = job.job;
  CoordinatorService::Options options;
  options.core.job = j;
  options.core.train_samples = job.data.train_samples;
  options.core.bases =
      static_cast<int>(job.layout.SlicesCutAt(MemberCuts(job)).size());
  options.core.grant_secret = DrawSecret(kGrantSecretBytes);
  options.job_name = j.name();
  options.core.run_id = run_id;
  options.fingerprint = job.fingerprint;
  options.job_text = FormatJob(j);
  options.epochs_total = j.stop().epochs();
  options.metrics_every = absl::Seconds(j.output().metrics_every_s());
  // Who is cut off for longer is not waited for at any other time either.
  options.farewell_timeout = absl::Seconds(j.limits().lease_s());
  options.clock = clock;
  return options;
}

ManifestWriter::Options ManifestsOf(const ResolvedJob& job,
                                    const std::string& run_dir,
                                    const std::string& run_id,
                                    FileOperations* files) {
  ManifestWriter::Options options;
  options.run_dir = run_dir;
  options.files = files;
  options.run.set_job(FormatJob(job.job));
  options.run.set_job_fingerprint(job.fingerprint);
  options.run.set_run_id(run_id);
  DescribeLayout(job.layout, &options.run);
  for (const std::string& name : StoredArrays(job)) {
    options.run.add_array(name);
  }
  options.run.set_chunk_floats(ChunkFloats(job));
  return options;
}

}  // namespace

Lead::Lead(std::string run_id) : run_id_(std::move(run_id)) {}

absl::StatusOr<std::unique_ptr<Lead>> Lead::Create(
    const ResolvedJob& job, const std::string& run_dir,
    const std::optional<Resumption>& resumption,
    const RecoveryOptions& recovery, const std::string& run_id, Clock* clock) {
  std::unique_ptr<Lead> lead(new Lead(run_id));
  CoordinatorService::Options options = ServiceOptions(job, run_id, clock);
  GenerationStart start = BeginGeneration(
      resumption, recovery, /*recoverable=*/!run_dir.empty(), &options.core);
  start.run_id = run_id;
  lead->generation_ = start.generation;
  if (!run_dir.empty()) {
    // The next generation, whoever takes it, is taken by creating this file.
    options.superseded = [next = CommitLogPath(run_dir, start.generation + 1),
                          lost = lead->lost_.get()] {
      std::error_code error;
      return *lost || std::filesystem::exists(next, error);
    };
    SLUICE_ASSIGN_OR_RETURN(lead->files_,
                            RunFiles::Create(job, start, run_dir));
    options.goes_on = [files = lead->files_.get()] { return files->GoesOn(); };
    options.keep_result = [files = lead->files_.get()](
                              const JobState& state, const FinishRun& finish) {
      return files->WriteSummary(state, finish);  // Else Close tries again.
    };
  }
  if (job.job.has_checkpoint()) {
    options.manifests = ManifestsOf(job, run_dir, run_id, &lead->disk_);
    options.manifests->prove = [files = lead->files_.get(),
                                lost = lead->lost_.get()] {
      const absl::Status proved = files->Prove();
      if (absl::IsPermissionDenied(proved)) *lost = true;
      return proved;
    };
  }
  lead->service_ = std::make_unique<CoordinatorService>(
      std::move(options), lead->files_ ? lead->files_->log() : nullptr,
      lead->files_ ? lead->files_->metrics() : nullptr,
      lead->files_ ? lead->files_->compute_times() : nullptr);
  return lead;
}

absl::Status Lead::WriteAddresses(const std::string& coordinator,
                                  const std::vector<std::string>& shards) {
  if (files_ == nullptr) return absl::OkStatus();
  return files_->WriteAddresses(FormatAddresses(run_id_, coordinator, shards));
}

absl::Status Lead::Close(const GenerationEnd& end) {
  const JobState state = service_->State();
  service_.reset();
  if (files_ == nullptr) return absl::OkStatus();
  const auto* finish = std::get_if<FinishRun>(&end);
  return files_->Close(
      state, finish == nullptr ? std::nullopt : std::make_optional(*finish));
}

}  // namespace sluice

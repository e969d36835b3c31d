#include "ps_server/lead.h"

#include <unistd.h>

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/atomic_file.h"
#include "common/random.h"
#include "common/status_macros.h"
#include "ps_server/addresses.h"
#include "ps_server/coordinator/coordinator_options_from_job.h"
#include "ps_server/coordinator/run_summary.h"

namespace sluice {
namespace {

// Different for every run, so that a grant of one is no grant in another.
uint64_t DrawGrantSecret(absl::Time now) {
  return Random(absl::ToUnixNanos(now), "grant").Uint64(getpid());
}

CoordinatorService::Options ServiceOptions(const ResolvedJob& job,
                                           Clock* clock) {
  const proto::Job& j = job.job;
  CoordinatorService::Options options;
  options.core = CoordinatorOptionsFromJob(job, DrawGrantSecret(clock->Now()));
  options.job_name = j.name();
  options.fingerprint = job.fingerprint;
  options.job_text = FormatJob(j);
  options.epochs_total = j.stop().epochs();
  options.metrics_every = absl::Seconds(j.output().metrics_every_s());
  options.rejoin_timeout = absl::Seconds(j.limits().rejoin_timeout_s());
  options.clock = clock;
  return options;
}

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(path, ": cannot be made: ", error.message()));
}

}  // namespace

Lead::Lead(const ResolvedJob& job, std::string run_dir)
    : job_(job.job), run_dir_(std::move(run_dir)) {}

std::string Lead::Path(const std::string& name) const {
  return absl::StrCat(run_dir_, "/", name);
}

absl::StatusOr<std::unique_ptr<Lead>> Lead::Create(const ResolvedJob& job,
                                                   const std::string& run_dir,
                                                   Clock* clock) {
  std::unique_ptr<Lead> lead(new Lead(job, run_dir));
  CoordinatorService::Options options = ServiceOptions(job, clock);
  if (!run_dir.empty()) {
    SLUICE_RETURN_IF_ERROR(MakeFolder(run_dir));
    proto::LogHeader header;
    header.set_generation(options.core.generation.value());
    header.set_job_fingerprint(job.fingerprint);
    auto log = CommitLogWriter::Create(lead->Path("commit_log"), header);
    if (absl::IsAlreadyExists(log.status())) {
      return absl::AlreadyExistsError(absl::StrCat(
          run_dir,
          ": holds the commit log of another run; --run-dir must be "
          "a new folder"));
    }
    SLUICE_ASSIGN_OR_RETURN(lead->log_, std::move(log));
    SLUICE_ASSIGN_OR_RETURN(lead->metrics_,
                            MetricsWriter::Create(lead->Path("metrics.jsonl")));
    const std::string resolved = lead->Path("job.textproto");
    if (!std::filesystem::exists(resolved)) {
      SLUICE_RETURN_IF_ERROR(WriteFileAtomically(resolved, {options.job_text}));
    }
  }
  lead->service_ = std::make_unique<CoordinatorService>(
      std::move(options), lead->log_.get(), lead->metrics_.get());
  return lead;
}

absl::Status Lead::WriteAddresses(const std::string& coordinator,
                                  const std::vector<std::string>& shards) {
  if (run_dir_.empty()) return absl::OkStatus();
  return WriteFileAtomically(Path("addresses"),
                             {FormatAddresses(coordinator, shards)});
}

absl::Status Lead::Close(const FinishRun& finish) {
  const JobState state = service_->State();
  service_.reset();
  if (run_dir_.empty()) return absl::OkStatus();
  // Where the log cannot be written, the summary still says so.
  const absl::Status synced = log_->Sync();
  SLUICE_RETURN_IF_ERROR(WriteFileAtomically(
      Path("summary.json"), {RunSummary(job_, state, finish)}));
  return synced;
}

}  // namespace sluice

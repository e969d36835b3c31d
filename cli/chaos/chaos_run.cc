#include "cli/chaos/chaos_run.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <ostream>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cli/chaos/director.h"
#include "cli/chaos/judgement.h"
#include "cli/chaos/part_networks.h"
#include "cli/chaos/part_storage.h"
#include "cli/chaos/schedule.h"
#include "cli/run_folder.h"
#include "cli/run_ledger.h"
#include "cli/run_summary.h"
#include "cli/signal_wait.h"
#include "cli/train_run.h"
#include "common/atomic_file.h"
#include "common/batch_grid.h"
#include "common/status_macros.h"
#include "ps_server/coordinator/core/coordinator_options_from_job.h"
#include "ps_server/coordinator/policy/batch_schedule.h"

namespace sluice {
namespace {

constexpr int kRefused = 2;
constexpr int kInterrupted = 130;

std::vector<std::string> PartsOf(const proto::Job& job) {
  std::vector<std::string> names;
  for (int s = 0; s < job.cluster().shards(); ++s) {
    names.push_back(NameOfPart(Part::kShard, s));
  }
  for (int w = 0; w < job.cluster().workers(); ++w) {
    names.push_back(NameOfPart(Part::kWorker, w));
  }
  if (job.evaluation().enabled()) {
    names.push_back(NameOfPart(Part::kEvaluator, 0));
  }
  return names;
}

// A run of a job, disturbed and judged.
class ChaosRun {
 public:
  ChaosRun(const ResolvedJob& job, const ChaosOptions& options, Clock* clock,
           std::ostream& progress, std::ostream& err)
      : job_(job),
        options_(options),
        clock_(clock),
        progress_(progress),
        err_(err) {}

  // Draws the schedule and says it.
  absl::Status Prepare() {
    SLUICE_ASSIGN_OR_RETURN(
        folder_, MakeRunFolder(options_.run_dir, job_.job.name() + "-chaos"));
    SLUICE_ASSIGN_OR_RETURN(const int64_t updates, UpdatesOf(job_));
    if (job_.job.checkpoint().every_updates() == 0) {
      return absl::InvalidArgumentError(
          "checkpoint.every_updates: must be above 0, so that versions say "
          "when a server can be disturbed again");
    }
    SLUICE_ASSIGN_OR_RETURN(const int cuts, Cuts());
    if (options_.storage_faults > 0) {
      SLUICE_ASSIGN_OR_RETURN(
          storage_,
          PartStorage::Create(
              absl::StrCat(options_.bin_dir, "/tests/process/faulty_disk.so"),
              folder_, DisturbedFolder()));
    }
    ChaosPlan plan{.kills = options_.kills,
                   .stops = options_.stops,
                   .cuts = cuts,
                   .storage_faults = options_.storage_faults,
                   .workers = job_.job.cluster().workers(),
                   .shards = job_.job.cluster().shards(),
                   .evaluator = job_.job.evaluation().enabled(),
                   .servers = options_.servers,
                   .updates = updates,
                   .checkpoint_every = job_.job.checkpoint().every_updates()};
    SLUICE_ASSIGN_OR_RETURN(outcome_.acts, DrawSchedule(options_.seed, plan));
    outcome_.seed = options_.seed;
    outcome_.policy = proto::Policy_Name(job_.job.sync().policy());
    outcome_.same_bits = job_.job.sync().policy() == proto::SYNC;
    outcome_.tolerance = options_.tolerance;
    progress_ << "seed " << options_.seed << ": " << outcome_.policy << ", "
              << updates << " updates, a checkpoint every "
              << plan.checkpoint_every << "\n";
    for (const Act& act : outcome_.acts) {
      progress_ << "  " << DescribeWithTime(act) << "\n";
    }
    return absl::OkStatus();
  }

  // The run that nobody disturbs. Its exit status.
  int TrainUndisturbed() {
    std::string from = options_.undisturbed;
    if (from.empty()) {
      from = absl::StrCat(folder_, "/undisturbed");
      progress_ << "undisturbed: " << std::flush;
      const int exit =
          RunTraining(job_, {.run_dir = from, .bin_dir = options_.bin_dir},
                      clock_, progress_, err_);
      if (exit != 0) return exit;
    }
    const absl::Status read = ReadUndisturbed(from);
    if (!read.ok()) err_ << read.message() << "\n";
    return read.ok() ? 0 : kRefused;
  }

  // The run that is disturbed. Its exit status.
  int TrainDisturbed() {
    Director director({.acts = outcome_.acts,
                       .lease = absl::Seconds(job_.job.limits().lease_s()),
                       .patience = options_.patience});
    progress_ << "disturbed: " << std::flush;
    const absl::Time begun = clock_->Now();
    const int exit = RunTraining(job_,
                                 {.run_dir = DisturbedFolder(),
                                  .bin_dir = options_.bin_dir,
                                  .observer = &director,
                                  .networks = networks_.get(),
                                  .storage = storage_.get()},
                                 clock_, progress_, err_);
    outcome_.took = clock_->Now() - begun;
    outcome_.done = director.done();
    outcome_.unasked_ends = director.unasked_ends();
    outcome_.longest_wait = director.longest_wait();
    outcome_.rolled_back = director.rolled_back();
    outcome_.failure = director.hang();
    if (exit != 0 && outcome_.failure.empty()) {
      outcome_.failure = FailureInSummary(DisturbedFolder());
    }
    if (exit != 0 && outcome_.failure.empty()) {
      outcome_.failure =
          absl::StrCat("the run failed; its logs are in ", DisturbedFolder());
    }
    return exit;
  }

  // Reads what the disturbed run left behind.
  const ChaosOutcome& Look() {
    const absl::StatusOr<RunResult> result = ReadRunResult(DisturbedFolder());
    if (result.ok()) outcome_.disturbed = *result;
    if (!result.ok() && outcome_.failure.empty()) {
      outcome_.failure = std::string(result.status().message());
    }
    absl::StatusOr<Ledger> ledger = ReadRunLedger(DisturbedFolder());
    if (ledger.ok()) {
      outcome_.ledger = *std::move(ledger);
    } else {
      outcome_.ledger.errors = {std::string(ledger.status().message())};
    }
    return outcome_;
  }

  const std::string& folder() const { return folder_; }

 private:
  std::string DisturbedFolder() const {
    return absl::StrCat(folder_, "/disturbed");
  }

  // How many there can be; makes the networks that they need.
  absl::StatusOr<int> Cuts() {
    const int wanted = options_.cuts.value_or(options_.stops);
    if (wanted == 0) return 0;
    absl::StatusOr<std::unique_ptr<PartNetworks>> networks =
        PartNetworks::Create(PartsOf(job_.job), folder_);
    if (networks.ok()) {
      networks_ = *std::move(networks);
      return wanted;
    }
    if (options_.cuts.has_value()) return networks.status();
    progress_ << "nobody is cut off: " << networks.status().message() << "\n";
    return 0;
  }

  absl::Status ReadUndisturbed(const std::string& from) {
    SLUICE_ASSIGN_OR_RETURN(outcome_.undisturbed, ReadRunResult(from));
    SLUICE_ASSIGN_OR_RETURN(const ResolvedJob job,
                            LoadJob(absl::StrCat(from, "/job.textproto"), {}));
    const std::string difference =
        DescribeDifference(FormatJob(job_.job), FormatJob(job.job));
    if (!difference.empty()) {
      return absl::InvalidArgumentError(
          absl::StrCat(from, ": is a run of another job: ", difference));
    }
    if (outcome_.undisturbed.failure.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat(from, ": the run failed: ", outcome_.undisturbed.failure));
  }

  const ResolvedJob& job_;
  const ChaosOptions& options_;
  Clock* const clock_;
  std::ostream& progress_;
  std::ostream& err_;
  std::string folder_;
  std::unique_ptr<PartNetworks> networks_;
  std::unique_ptr<PartStorage> storage_;
  ChaosOutcome outcome_;
};

}  // namespace

absl::StatusOr<int64_t> UpdatesOf(const ResolvedJob& job) {
  const CoordinatorOptions options =
      CoordinatorOptionsFromJob(job, /*grant_secret=*/0);
  const StopOptions& stop = options.stop;
  if (stop.time.has_value() || stop.target_accuracy.has_value()) {
    return absl::InvalidArgumentError(
        "stop: must be epochs or updates alone, so that the run is as long "
        "when it is disturbed");
  }
  int64_t updates = std::numeric_limits<int64_t>::max();
  if (stop.updates.has_value()) updates = *stop.updates;
  if (stop.epochs.has_value()) {
    const BatchSchedule schedule(
        BatchGrid(options.train_samples, options.batch_size,
                  options.static_partitions ? options.workers : 1),
        options.sync.local_steps, options.stop.epochs);
    const int64_t k = MostGradientsPerUpdate(job.job.sync());
    updates = std::min(updates, (schedule.total() + k - 1) / k);
  }
  return updates;
}

int64_t CheckpointEveryFor(int64_t updates, int acts) {
  // The acts are spread over nine tenths of the run, and two checkpoints lie
  // between two of them even if all are on servers.
  return std::max<int64_t>(1, updates / (3 * (acts + 1)));
}

int RunChaos(const ResolvedJob& job, const ChaosOptions& options, Clock* clock,
             std::ostream& out, std::ostream& err) {
  // Over both runs, so that between them nothing is missed.
  const SignalWait signals;
  ChaosRun run(job, options, clock, options.json ? err : out, err);
  const absl::Status prepared = run.Prepare();
  if (!prepared.ok()) {
    err << prepared.message() << "\n";
    return kRefused;
  }
  if (const int exit = run.TrainUndisturbed(); exit != 0) return exit;
  if (run.TrainDisturbed() == kInterrupted) return kInterrupted;
  const ChaosOutcome& outcome = run.Look();
  const std::string json = ChaosJson(outcome);
  const absl::Status written =
      WriteFileAtomically(absl::StrCat(run.folder(), "/chaos.json"), {json});
  if (!written.ok()) err << written.message() << "\n";
  out << (options.json ? json : DescribeChaos(outcome)) << std::flush;
  return written.ok() && AllHold(Judge(outcome)) ? 0 : 1;
}

}  // namespace sluice

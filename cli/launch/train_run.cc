#include "cli/launch/train_run.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <ostream>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "cli/launch/coordinator_watch.h"
#include "cli/launch/death_reports.h"
#include "cli/launch/local_cluster.h"
#include "cli/launch/progress.h"
#include "cli/launch/signal_wait.h"
#include "cli/launch/supervision.h"
#include "cli/report/run_result.h"
#include "cli/run_folder.h"
#include "common/files/atomic_file.h"
#include "common/files/file_mode.h"
#include "common/files/file_operations.h"
#include "common/job/group.h"
#include "common/job/job_counts.h"
#include "common/job/model_command.h"
#include "common/process/shared_memory.h"
#include "common/run_id.h"
#include "common/status_macros.h"
#include "common/tls/transport_security.h"
#include "ps_server/coordinator/log/generations.h"
#include "ps_server/resume.h"

namespace sluice {
namespace {

// Twice a second looks live and costs nothing.
constexpr absl::Duration kPollEvery = absl::Milliseconds(500);
// Until the lead listens: a longer pause would delay the start of the others.
constexpr absl::Duration kStartPollEvery = absl::Milliseconds(20);

// The lead says where it listens when the run is its own. One that goes on with
// a run has read its checkpoint by then, from a disk that may be slow or away:
// that, and how long it is waited for, is said after a while.
constexpr absl::Duration kSayLeadIsAwaitedAfter = absl::Seconds(5);

absl::Duration LeadPatience(const proto::Limits& limits) {
  return absl::Seconds(limits.start_timeout_s() + limits.storage_timeout_s());
}

// Whether a run that is to stop must be asked again.
bool IsGoingOn(const std::string& phase) {
  return phase == "starting" || phase == "running" || phase == "recovering";
}

std::string SummaryOf(const std::string& run_dir) {
  return absl::StrCat(run_dir, "/summary.json");
}

// One run, from its first child to its last. Supervision decides; this shell
// waits for signals, polls the coordinator, and does what Supervision says.
class TrainRun {
 public:
  TrainRun(ClusterPlan plan, const proto::Limits& limits,
           const TransportSecurity& security, int columns, Clock* clock,
           std::ostream& out)
      : clock_(clock),
        begun_(clock->Now()),
        lead_patience_(LeadPatience(limits)),
        run_dir_(plan.run_dir),
        summary_before_(TextOfFile(SummaryOf(plan.run_dir))),
        security_(security),
        supervision_(plan.max_workers,
                     plan.command.empty()
                         ? absl::ZeroDuration()
                         : absl::Seconds(limits.model_process_end_s())),
        view_(out, columns),
        cluster_(std::move(plan)) {}

  // Returns when every child has ended.
  void Run() {
    const absl::Status started = cluster_.StartLead();
    if (!started.ok()) return StartFailed(started);
    while (!cluster_.Empty() || supervision_.RestartsPending()) {
      const std::optional<int> signal =
          signals_.WaitFor(watch_.has_value() ? kPollEvery : kStartPollEvery);
      if (signal.has_value() && *signal != SIGCHLD) {
        Do(supervision_.OnInterrupt());
      }
      TakeEnded();
      if (watch_.has_value()) {
        ShowStatus();
      } else {
        StartOthersOnceTheLeadListens();
      }
      Do(supervision_.OnTime(clock_->Now()));
    }
    if (!summary_is_old()) {
      supervision_.OnLastWord(FailureInSummary(run_dir_));
    }
    view_.Finish();
  }

  // Whether summary.json is still that of the end from which this run was
  // resumed: it is until the first update.
  bool summary_is_old() const {
    return summary_before_.has_value() &&
           TextOfFile(SummaryOf(run_dir_)) == summary_before_;
  }

  const Supervision& supervision() const { return supervision_; }
  const LocalCluster& cluster() const { return cluster_; }

 private:
  void StartFailed(const absl::Status& status) {
    stopping_ = true;
    supervision_.OnFailure(std::string(status.message()));
    cluster_.KillAll();
  }

  void TakeEnded() {
    std::vector<PartEnd> ended = cluster_.TakeEnded();
    // Ask now for the reason, and whether the run has begun: soon the
    // coordinator may end, too.
    const bool by_itself =
        std::any_of(ended.begin(), ended.end(),
                    [](const PartEnd& end) { return !end.ok && !end.killed; });
    if (by_itself && watch_.has_value()) AskHowItStands();
    for (const PartEnd& end : ended) reports_.Add(end, clock_->Now());
    // Before the child is started again, or its place would still be taken.
    if (watch_.has_value()) ReportDeaths();
    for (const PartEnd& end : ended) {
      Do(supervision_.OnEnd(end, clock_->Now()));
    }
  }

  // A report that nobody answers is sent again later.
  void ReportDeaths() {
    for (const proto::DeathReport& report : reports_.Due(clock_->Now())) {
      const absl::Status told = watch_->ReportDeath(report);
      if (absl::IsUnavailable(told) || absl::IsDeadlineExceeded(told)) return;
      reports_.Answered(report);
    }
  }

  void StartOthersOnceTheLeadListens() {
    const LeadAddress lead = cluster_.ReadLeadAddress();
    if (stopping_ || cluster_.Empty()) return;
    if (lead.host_port.empty()) return AwaitLead();
    const absl::Status started = cluster_.StartOthers(lead.host_port);
    if (!started.ok()) return StartFailed(started);
    watch_.emplace(lead, security_.ToLead());
  }

  void AwaitLead() {
    const std::string patience =
        absl::StrCat(absl::FormatDuration(lead_patience_),
                     " (limits.start_timeout_s and limits.storage_timeout_s)");
    const absl::Duration waited = clock_->Now() - begun_;
    if (waited >= lead_patience_) {
      return StartFailed(absl::DeadlineExceededError(absl::StrCat(
          "ps_server-0 has not said within ", patience, " where it listens")));
    }
    if (waited < kSayLeadIsAwaitedAfter || lead_awaited_) return;
    lead_awaited_ = true;
    view_.Say(absl::StrCat(
        "starting: ps_server-0 has not said yet where it listens; it may take ",
        patience));
  }

  // Nullopt: the coordinator does not answer.
  std::optional<proto::JobStatus> AskHowItStands() {
    const absl::StatusOr<proto::JobStatus> status = watch_->GetStatus();
    if (!status.ok()) return std::nullopt;
    RunProgress progress;
    progress.begun = status->phase() != "starting";
    progress.version = status->version();
    if (status->checkpoint().has_newest_version()) {
      progress.checkpoint = {status->generation(),
                             status->checkpoint().newest_version()};
    }
    supervision_.OnProgress(progress);
    if (status->phase() == "failed") {
      supervision_.OnFailure(status->message());
    }
    return *status;
  }

  void ShowStatus() {
    const std::optional<proto::JobStatus> status = AskHowItStands();
    if (!status.has_value()) return;
    ReportDeaths();
    view_.Show(*status, clock_->Now());
    // The generation that was asked to stop may have ended before it did so.
    if (stopping_ && IsGoingOn(status->phase())) Stop();
  }

  void Stop() {
    stopping_ = true;
    if (!watch_.has_value()) {
      // Nothing has been trained yet, so there is nothing to keep.
      return Do(supervision_.OnInterrupt());
    }
    const absl::Status asked = watch_->Stop("interrupted by the user").status();
    if (asked.ok()) return;
    view_.Say(absl::StrCat(
        "the coordinator does not answer: ", std::string(asked.message()),
        "; it will be asked again"));
    // A lead that can take no connection hears a signal.
    if (!std::exchange(lead_signalled_, true)) {
      cluster_.Signal("ps_server-0", SIGTERM);
    }
  }

  void Do(const SuperviseActions& actions) {
    for (const std::string& line : actions.say) view_.Say(line);
    for (const std::string& name : actions.restart) {
      const absl::Status started = cluster_.Restart(name);
      if (started.ok()) continue;
      Do(supervision_.OnEnd(cluster_.NotStarted(name, started), clock_->Now()));
    }
    for (const int worker : actions.part_with) {
      cluster_.SignalWorker(worker, SIGTERM);
    }
    if (actions.stop) Stop();
    if (actions.dismiss) {
      for (const std::string& name : cluster_.Names()) {
        cluster_.Signal(name, SIGTERM);
      }
    }
    if (actions.kill) cluster_.KillAll();
  }

  // Constant after construction.
  Clock* const clock_;
  const absl::Time begun_;
  const absl::Duration lead_patience_;
  const std::string run_dir_;
  const std::optional<std::string> summary_before_;
  const TransportSecurity security_;

  SignalWait signals_;  // Before anything that starts a thread.
  Supervision supervision_;
  DeathReports reports_;
  ProgressView view_;
  LocalCluster cluster_;
  std::optional<CoordinatorWatch> watch_;  // Once the lead listens.
  bool stopping_ = false;
  bool lead_awaited_ = false;  // And that was said.
  bool lead_signalled_ = false;
};

// Why the run failed, and the last lines of the log that says more.
std::string DescribeFailure(const TrainRun& run, const std::string& run_dir) {
  const Supervision& end = run.supervision();
  std::string text = absl::StrCat(
      "the run failed: ",
      end.failure().empty() ? "killed by the user" : end.failure(), "\n");
  for (const std::string& died : end.given_up()) {
    absl::StrAppend(&text, "before that: ", died, "\n");
  }
  const std::string who = end.culprit();
  if (who.empty()) {
    absl::StrAppend(&text, "logs: ", run_dir, "\n");
  } else {
    absl::StrAppend(&text, "the last lines of ", run_dir, "/", who, ".log:\n",
                    run.cluster().TailOf(who));
  }
  return text;
}

void Report(const TrainRun& run, const std::string& run_dir,
            const TrainOptions& options, std::ostream& out, std::ostream& err) {
  const bool ended_well = run.supervision().ExitCode() == 0;
  if (options.summary != nullptr && (ended_well || !run.summary_is_old())) {
    *options.summary << TextOfFile(SummaryOf(run_dir)).value_or("")
                     << std::flush;
  }
  if (ended_well) {
    if (options.summary == nullptr) {
      const absl::StatusOr<std::string> text = DescribeSummary(run_dir);
      out << (text.ok() ? *text : absl::StrCat(text.status().message(), "\n"))
          << std::flush;
    }
    return;
  }
  const std::string failure = DescribeFailure(run, run_dir);
  err << failure;
  // For `sluice status`, where the lead could leave no summary.
  const absl::Status kept =
      WriteFileAtomically(FailureFileOf(run_dir), {failure});
  if (!kept.ok()) err << kept.message() << "\n";
}

// The folder and the id of a run.
struct RunPlace {
  std::string dir;
  std::string id;
  Descriptor claim;  // Of the folder.
};

// A lock on the run's folder, which ends with the process, however that ends.
// Without it two launchers that resume a run at the same moment take each
// other's daemons for their own. kFailedPrecondition: another one holds it.
absl::StatusOr<Descriptor> ClaimFolder(const std::string& run_dir) {
  Descriptor folder(open(run_dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (flock(folder.number(), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) {
    return folder;  // Also where it is not there, or its disk has no locks.
  }
  return absl::FailedPreconditionError(absl::StrCat(
      run_dir,
      ": the run has not ended: another `sluice train` is at work in it"));
}

// Whether going on from `version` would replace the results of a run that came
// to a later end, as one whose job had no `checkpoint` may.
absl::Status CheckResults(const std::string& run_dir, Version version) {
  const absl::StatusOr<RunResult> result = ReadRunResult(run_dir);
  if (!result.ok() || !result->failure.empty() ||
      result->version <= version.value()) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      run_dir, ": the run has ended at version ", result->version,
      ", and its newest checkpoint is of version ", version.value(),
      ": going on from there would replace its weights and its summary; "
      "remove ",
      run_dir, "/summary.json if they are not wanted"));
}

// Makes sure that the run in the folder can be resumed with `job`, and prints
// from where. Removes the old addresses, so that nobody takes them for the new,
// and what would make its lead end a run that was stopped.
absl::StatusOr<RunPlace> Reopen(const ResolvedJob& job,
                                const TrainOptions& options,
                                const TransportSecurity& security,
                                std::ostream& out) {
  const std::string& run_dir = options.run_dir;
  const LeadAddress lead = LeadAddressOf(run_dir);
  if (!lead.host_port.empty() &&
      CoordinatorWatch(lead, security.ToLead()).GetStatus().ok()) {
    return absl::FailedPreconditionError(absl::StrCat(
        run_dir, ": the run has not ended: its coordinator answers at ",
        lead.host_port));
  }
  SLUICE_ASSIGN_OR_RETURN(Descriptor claim, ClaimFolder(run_dir));
  SLUICE_ASSIGN_OR_RETURN(const Resumption resumption,
                          FindResumption(job, run_dir, {.id = options.run_id}));
  for (const absl::Status& status : resumption.passed_over) {
    out << "passed over: " << status.message() << "\n";
  }
  SLUICE_RETURN_IF_ERROR(CheckResults(run_dir, resumption.point.version));
  out << "going on from version " << resumption.point.version.value()
      << " as generation " << resumption.generation.value();
  if (resumption.lost > 0) {
    out << "; " << resumption.lost << " later tasks are lost";
  }
  out << "\n";
  if (!job.job.has_checkpoint()) {
    out << "the job has no `checkpoint`: nothing from here on can be resumed "
           "from\n";
  }
  for (const std::string& file :
       {absl::StrCat(run_dir, "/addresses"), FailureFileOf(run_dir),
        absl::StrCat(run_dir, "/", kFarewell)}) {
    SLUICE_RETURN_IF_ERROR(FileOperations().Remove(file));
  }
  return RunPlace{run_dir, resumption.run_id, std::move(claim)};
}

// The folder of the run: a new one, or that of the run to resume.
absl::StatusOr<RunPlace> PlaceOf(const ResolvedJob& job,
                                 const TrainOptions& options,
                                 const TransportSecurity& security,
                                 Clock* clock, std::ostream& out) {
  RunPlace place;
  if (!options.run_id.empty()) {
    SLUICE_RETURN_IF_ERROR(CheckRunId(options.run_id));
  }
  if (options.resume) {
    SLUICE_ASSIGN_OR_RETURN(place, Reopen(job, options, security, out));
  } else {
    SLUICE_ASSIGN_OR_RETURN(
        place.dir,
        MakeRunFolder(options.run_dir.empty() ? job.job.output().run_dir()
                                              : options.run_dir,
                      job.job.name()));
    SLUICE_ASSIGN_OR_RETURN(place.claim, ClaimFolder(place.dir));
  }
  if (place.id.empty()) place.id = options.run_id;
  if (place.id.empty()) place.id = DrawRunId(clock->Now());
  return place;
}

}  // namespace

int RunTraining(ResolvedJob job, const TrainOptions& options, Clock* clock,
                std::ostream& out, std::ostream& err) {
  LetRead(job.job.output().mode());
  const auto security = OpenAsOperator(options.tls, job.job.name(), clock);
  if (!security.ok()) {
    err << security.status().message() << "\n";
    return 2;
  }
  const absl::StatusOr<RunPlace> place =
      PlaceOf(job, options, *security, clock, out);
  if (!place.ok()) {
    err << place.status().message() << "\n";
    return ExitCodeOfRefusal(place.status());
  }
  const std::string& run_dir = place->dir;
  job.job.mutable_output()->set_run_dir(run_dir);
  const std::string job_path = absl::StrCat(run_dir, "/job.textproto");
  const std::string text = FormatJob(job.job);
  const absl::Status written = WriteFileAtomically(job_path, {text});
  if (!written.ok()) {
    err << written.message() << "\n";
    return ExitCodeOfRefusal(written);
  }
  out << "run folder " << run_dir << "\nrun id " << place->id << std::endl;
  TrainRun run(
      {.bin_dir = options.bin_dir,
       .run_dir = run_dir,
       .run_id = place->id,
       .job_path = job_path,
       .shards = job.job.cluster().shards(),
       .workers = GroupsOf(job.job),
       .max_workers = MostWorkers(job.job.cluster()) / SlotsOf(job.job),
       .members = LinksOfMembers(job.job),
       .evaluator = job.job.evaluation().enabled(),
       .resume = options.resume,
       .timeline = options.timeline,
       .tls = options.tls,
       .http = options.http,
       .http_linger_s = options.http_linger_s,
       .command = options.command,
       .evaluator_command = EvaluatorHasModelProcess(job.job)
                                ? options.command
                                : std::vector<std::string>()},
      job.job.limits(), *security, options.columns, clock, out);
  run.Run();
  Report(run, run_dir, options, out, err);
  return run.supervision().ExitCode();
}

}  // namespace sluice

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "cli/commands.h"
#include "cli/job_flags.h"
#include "cli/plot/figure.h"
#include "cli/report/job/advise_report.h"
#include "cli/report/run_result.h"
#include "cli/run_folder.h"
#include "common/clock.h"
#include "common/files/atomic_file.h"
#include "common/files/file_operations.h"
#include "common/job/group.h"
#include "common/job/job_text.h"
#include "common/job/resolved_job.h"
#include "common/process/named_thread.h"
#include "common/status_macros.h"
#include "sim/advice/advice.h"
#include "sim/simulated_run.h"

namespace sluice {
namespace {

struct AdviseFlags {
  JobFlags job;
  AdviceQuestion question;
  std::vector<std::string> policies;
  double budget_seconds = 600;
  std::string compute_times;  // A run folder, or a trace.
  int threads = 0;
  std::string out = "advice";
  std::string gnuplot = "/usr/bin/gnuplot";
  bool json = false;
};

// Refuses a folder where the advice would replace what it is made from: the job
// itself, or that of a run.
absl::Status CheckOut(const AdviseFlags& flags) {
  std::error_code error;
  const bool runs = std::filesystem::exists(flags.out + "/commit_log", error);
  if (!runs && !std::filesystem::equivalent(flags.out + "/job.textproto",
                                            flags.job.path, error)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--out ", flags.out, ": the advice would replace ",
                   flags.out, "/job.textproto, which is ",
                   runs ? "that of the run in the folder" : "the job it is for",
                   "; name another folder"));
}

// The flags with which the advised job is trained. The delays of the command
// line are a model of the cluster that the advice is for: a run that had them
// would sleep.
JobFlags ToTrain(JobFlags flags) {
  std::erase_if(flags.set, [](const std::string& field) {
    return absl::StartsWith(field, "delays");
  });
  return flags;
}

// Writes the files of the advice, and replaces older ones. After an error there
// is no job of an older one.
absl::Status WriteFiles(const ResolvedJob& job, const JobFlags& trained,
                        const AdviceReport& report) {
  const std::string advised = report.out + "/job.textproto";
  SLUICE_RETURN_IF_ERROR(FileOperations::Real()->Remove(advised));
  std::ostringstream json;
  PrintAdvice(job, report, /*json=*/true, json);
  SLUICE_RETURN_IF_ERROR(
      WriteFileAtomically(report.out + "/advice.json", {json.str()}));
  if (const auto best = report.advice.Recommended(); best.has_value()) {
    std::vector<std::string> overrides = trained.Overrides();
    const AdviceEntrant& entrant = report.advice.entrants[*best];
    overrides.insert(overrides.end(), entrant.overrides.begin(),
                     entrant.overrides.end());
    SLUICE_ASSIGN_OR_RETURN(const ResolvedJob recommended,
                            LoadJob(trained.path, overrides));
    SLUICE_RETURN_IF_ERROR(
        WriteFileAtomically(advised, {FormatJob(recommended.job)}));
  }
  return absl::OkStatus();
}

absl::Status DrawPicture(const ResolvedJob& job, const AdviseFlags& flags,
                         const AdviceReport& report) {
  const std::optional<Figure> figure = AdviceFigure(job, report);
  return figure.has_value() ? Draw(*figure, report.out, flags.gnuplot)
                            : absl::OkStatus();
}

// Makes the simulated jobs use the compute times that a run has measured. These
// include the injected delays and the workers' factors. The delays of the
// network stay those of the job. kNotFound: there is no such trace.
// kInvalidArgument: the run's times are those of whole groups.
absl::Status UseComputeTimes(const ResolvedJob& job, const std::string& run,
                             AdviceQuestion* question) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(run, error);
  const std::string trace = folder ? run + "/compute_times.txt" : run;
  if (!std::filesystem::exists(trace, error)) {
    return absl::NotFoundError(
        absl::StrCat("--compute-times ", run, ": there is no ", trace));
  }
  // Its text alone: the run's data may not be on this host.
  const std::string measured_path = run + "/job.textproto";
  const absl::StatusOr<proto::Job> measured =
      ParseJobText(TextOfFile(measured_path).value_or(""), measured_path);
  if (measured.ok() && IsGroup(*measured)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--compute-times ", run,
        ": its workers are groups (worker.group), so its times are those of "
        "whole groups. The simulation takes times of one process and divides "
        "them among a group's stages; measure without worker.group"));
  }
  proto::Delays delays = job.job.delays();
  delays.clear_worker_factor();
  delays.mutable_compute()->mutable_trace()->set_path(trace);
  question->simulated.push_back(
      absl::StrCat("delays={", delays.ShortDebugString(), "}"));
  const int64_t cancelled = CancelledInSummary(run);
  // The end of a run cancels one task of every worker, long or short. Only more
  // cancellations than that mean that long tasks are missing.
  if (measured.ok() && cancelled > measured->cluster().workers()) {
    std::cerr << run << ": " << cancelled
              << " of its tasks were cancelled, so that the longest times are "
                 "missing; measure with a policy that cancels none\n";
  }
  return absl::OkStatus();
}

// Calls run(i) once for each i from 0 to n - 1, in `threads` threads of its
// own called NAME 0, NAME 1 and so on, each taking the next i as soon as it is
// done with one. Blocks until all have returned.
void RunInThreads(const std::string& name, int threads, int n,
                  const std::function<void(int)>& run) {
  std::atomic<int> next{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.push_back(StartThread(absl::StrCat(name, " ", t), [&] {
      for (int i = next++; i < n; i = next++) run(i);
    }));
  }
  for (std::thread& thread : all) thread.join();
}

// Completes the question from the flags and the job.
absl::Status Complete(const ResolvedJob& job, AdviseFlags* flags) {
  AdviceQuestion& question = flags->question;
  if (question.target.accuracy.has_value() ==
      question.target.loss.has_value()) {
    return absl::InvalidArgumentError(
        "one of --target-accuracy and --target-loss must be given");
  }
  // Before the runs, which would all refuse it.
  ResolvedJob simulated = job;
  simulated.job.mutable_evaluation()->set_every_epochs(question.evaluate_every);
  SLUICE_RETURN_IF_ERROR(CheckTarget(simulated, question.target));
  if (!flags->compute_times.empty()) {
    SLUICE_RETURN_IF_ERROR(
        UseComputeTimes(job, flags->compute_times, &question));
  }
  for (const std::string& name : flags->policies) {
    proto::Policy policy;
    if (!proto::Policy_Parse(name, &policy) || policy == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--policies: expected SYNC, K_SYNC, K_BATCH_SYNC, ASYNC, K_ASYNC or "
          "K_BATCH_ASYNC, got \"",
          name, "\""));
    }
    question.range.policies.push_back(policy);
  }
  question.job = [flags](const std::vector<std::string>& more) {
    std::vector<std::string> overrides = flags->job.Overrides();
    overrides.insert(overrides.end(), more.begin(), more.end());
    return LoadJob(flags->job.path, overrides);
  };
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  const int threads = flags->threads > 0
                          ? flags->threads
                          : std::max(1, cores / job.job.worker().threads());
  question.run_all = [threads](int n, const std::function<void(int)>& run) {
    RunInThreads("simulate", threads, n, run);
  };
  const absl::Time end =
      Clock::Real()->Now() + absl::Seconds(flags->budget_seconds);
  question.enough = [end] { return Clock::Real()->Now() >= end; };
  question.begins = [seeds = question.seeds](const Race::Heat& heat) {
    std::cerr << absl::StrFormat("seed %d of %d: %d runs of %.4g s\n",
                                 heat.seed + 1, seeds, heat.entrants.size(),
                                 heat.horizon);
  };
  return absl::OkStatus();
}

int Fail(const absl::Status& status) {
  std::cerr << status.message() << "\n";
  return absl::IsInternal(status) || absl::IsUnavailable(status) ? 1 : 2;
}

int RunAdvise(AdviseFlags* flags) {
  const absl::Time began = Clock::Real()->Now();
  const absl::StatusOr<ResolvedJob> job = flags->job.Load();
  if (!job.ok()) return Fail(job.status());
  if (const absl::Status status = CheckOut(*flags); !status.ok()) {
    return Fail(status);
  }
  if (const absl::Status status = Complete(*job, flags); !status.ok()) {
    return Fail(status);
  }
  std::error_code error;
  std::filesystem::create_directories(flags->out, error);
  if (error) {
    return Fail(absl::UnavailableError(
        absl::StrCat("making the folder ", flags->out, ": ", error.message())));
  }
  absl::StatusOr<Advice> advice = Advise(flags->question);
  if (!advice.ok()) return Fail(advice.status());
  AdviceReport report;
  const JobFlags trained = ToTrain(flags->job);
  report.job = trained.Words();
  report.advice = *std::move(advice);
  report.target = flags->question.target;
  report.seeds = flags->question.seeds;
  report.wall = Clock::Real()->Now() - began;
  report.budget = absl::Seconds(flags->budget_seconds);
  report.out = flags->out;
  const absl::Status written = WriteFiles(*job, trained, report);
  if (!written.ok()) report.out.clear();  // Its files are not there.
  PrintAdvice(*job, report, flags->json, std::cout);
  if (!written.ok()) {
    std::cerr << written.message() << "\n";
    return 1;
  }
  // The advice is good even if its picture cannot be drawn.
  const absl::Status drawn = DrawPicture(*job, *flags, report);
  if (!drawn.ok()) std::cerr << drawn.message() << "\n";
  return report.advice.Recommended().has_value() ? 0 : 1;
}

void AddQuestion(CLI::App* command, AdviseFlags* flags) {
  AdviceQuestion& question = flags->question;
  command
      ->add_option("--target-accuracy", question.target.accuracy,
                   "The share of the test split to get right")
      ->check(NumberFrom(0.0, 1.0));
  command->add_option("--target-loss", question.target.loss,
                      "Or the test loss to reach");
  command
      ->add_option("--policies", flags->policies,
                   "Policies to try, A,B,...; default: all six")
      ->delimiter(',')
      ->allow_extra_args(false);
  command
      ->add_option("--k", question.range.ks,
                   "Ks to try, A,B,...; default: a quarter, half and three "
                   "quarters of the workers, and adaptive")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(WholeFrom(1, 65536));
  command
      ->add_option("--rates", question.rate_factors,
                   "Multiples of the job's learning rate to try, A,B,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(NumberFrom(1e-6, 1e6))
      ->capture_default_str();
  command
      ->add_option("--seeds", question.seeds,
                   "Seeds to compare on, from the job's on")
      ->check(WholeFrom(1, Race::kMostSeeds))
      ->capture_default_str();
  command
      ->add_option("--finalists", question.finalists,
                   "Keep so many runs on the first seed, however far behind: "
                   "more is surer and slower")
      ->check(WholeFrom(1, 1 << 20))
      ->capture_default_str();
  command
      ->add_option("--evaluate-every", question.evaluate_every,
                   "Epochs between evaluations")
      ->check(NumberFrom(1e-6, 1e6))
      ->capture_default_str();
  command->add_option("--compute-times", flags->compute_times,
                      "Take the compute times that this run has measured "
                      "(its folder, or a trace) instead of the job's delays");
}

}  // namespace

void AddAdviseCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "advise", "Find the policy, K and rate that are first at a target");
  auto flags = std::make_shared<AdviseFlags>();
  flags->job.AddTo(*command);
  AddQuestion(command, flags.get());
  command
      ->add_option("--budget", flags->budget_seconds,
                   "Seconds after which it ends with what it knows")
      ->check(NumberFrom(1e-3, 1e9))
      ->capture_default_str();
  command
      ->add_option("--threads", flags->threads,
                   "Simulations at once; default: what fits the cores")
      ->check(WholeFrom(1, 1024));
  command
      ->add_option("--out", flags->out,
                   "Folder of the advice, the job and the picture; those "
                   "there are replaced")
      ->capture_default_str();
  command->add_option("--gnuplot", flags->gnuplot, "The program that draws")
      ->capture_default_str();
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback(
      [flags, exit_code] { *exit_code = RunAdvise(flags.get()); });
}

}  // namespace sluice

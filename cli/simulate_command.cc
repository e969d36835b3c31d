#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>

#include "absl/time/time.h"
#include "cli/commands.h"
#include "cli/job_flags.h"
#include "cli/plot/plot_runs.h"
#include "cli/report/job/simulate_report.h"
#include "cli/run_folder.h"
#include "cli/slow_work.h"
#include "common/clock.h"
#include "common/files/file_mode.h"
#include "common/job/resolved_job.h"
#include "sim/simulated_run.h"
#include "sim/theory/timing.h"

namespace sluice {
namespace {

struct SimulateFlags {
  JobFlags job;
  TimingOptions timing;
  SimulationTarget target;
  std::string run_dir;
  std::string plot;  // Folder of the pictures; empty: none.
  bool timing_only = false;
  bool json = false;
};

int Fail(const absl::Status& status) {
  std::cerr << status.message() << "\n";
  return ExitCodeOfRefusal(status);
}

absl::Status SimulateTimes(const ResolvedJob& job, const SimulateFlags& flags,
                           SimulationReport* report) {
  SlowWork slow("simulate", "update");
  TimingOptions options = flags.timing;
  options.progress = [&slow](int64_t updates) { slow.At(updates); };
  absl::StatusOr<Timing> timing = MeasureTiming(job, options);
  if (!timing.ok()) return timing.status();
  report->timing = *std::move(timing);
  return absl::OkStatus();
}

absl::Status SimulateTraining(const ResolvedJob& job,
                              const SimulateFlags& flags,
                              SimulationReport* report) {
  LetRead(job.job.output().mode());
  const std::string& wanted =
      flags.run_dir.empty() ? job.job.output().run_dir() : flags.run_dir;
  absl::StatusOr<std::string> folder = MakeRunFolder(wanted, job.job.name());
  if (!folder.ok()) return folder.status();
  report->run_dir = *std::move(folder);
  report->target = flags.target;
  SlowWork slow("simulate", "update");
  int64_t updates = 0;
  absl::StatusOr<SimulatedRun> run =
      SimulateRun(job, {.run_dir = report->run_dir,
                        .target = flags.target,
                        .enough = [&](double /*seconds*/) {
                          slow.At(++updates);
                          return false;
                        }});
  if (!run.ok()) {
    // A job that was refused leaves no folder behind, unless it has files.
    std::error_code not_empty;
    std::filesystem::remove(report->run_dir, not_empty);
    return run.status();
  }
  report->timing = run->timing;
  report->run = *std::move(run);
  return absl::OkStatus();
}

// Says which part of a run its times are those of, where they differ.
void SayWhatIsMeasured(const proto::Sync& sync) {
  if (sync.warm_start_updates() > 0) {
    std::cerr << "sync.warm_start_updates: the times are those after the warm "
                 "start\n";
  }
  const proto::KSchedule& schedule = sync.k_schedule();
  if (schedule.has_by_version()) {
    std::cerr << "sync.k_schedule.by_version: the times are those of the last "
                 "K, "
              << schedule.by_version().change().rbegin()->k() << "\n";
  } else if (schedule.has_adaptive()) {
    std::cerr << "sync.k_schedule.adaptive: the times are those of the first "
                 "K, "
              << sync.k() << ", as there are no losses for it to follow\n";
  }
}

// Draws the run as `sluice plot` does; returns the exit status.
int Draw(const ResolvedJob& job, const SimulateFlags& flags,
         SimulationReport* report) {
  PlotRequest request;
  request.runs = {report->run_dir};
  request.labels = {job.job.name()};
  request.out = flags.plot;
  Pictures pictures;
  const absl::Status status = PlotRuns(request, &pictures);
  report->pictures = pictures.drawn;
  for (const std::string& note : pictures.notes) std::cerr << note << "\n";
  if (!status.ok()) std::cerr << status.message() << "\n";
  return PlotExitCode(status);
}

int Simulate(const SimulateFlags& flags) {
  absl::StatusOr<ResolvedJob> job = flags.job.Load();
  if (!job.ok()) {
    std::cerr << job.status().message() << "\n";
    return 2;
  }
  if (flags.timing_only) {
    SayWhatIsMeasured(job->job.sync());
    job->job = InTheLongRun(job->job);
  }
  const absl::Time began = Clock::Real()->Now();
  SimulationReport report;
  const absl::Status simulated = flags.timing_only
                                     ? SimulateTimes(*job, flags, &report)
                                     : SimulateTraining(*job, flags, &report);
  if (!simulated.ok()) return Fail(simulated);
  report.wall = Clock::Real()->Now() - began;
  const int drawn = flags.plot.empty() ? 0 : Draw(*job, flags, &report);
  PrintSimulation(*job, report, flags.json, std::cout);
  return drawn;
}

}  // namespace

void AddSimulateCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "simulate", "Run the job's cluster in virtual time (needs delays)");
  auto flags = std::make_shared<SimulateFlags>();
  flags->job.AddTo(*command);
  CLI::Option* timing_only =
      command->add_flag("--timing-only", flags->timing_only,
                        "Simulate times, without an end; compute no gradient");
  command
      ->add_option("--run-dir", flags->run_dir,
                   "Folder of the run; default: runs/NAME-N")
      ->excludes(timing_only);
  command
      ->add_option("--plot", flags->plot,
                   "Draw the run into this folder, as `sluice plot` does")
      ->excludes(timing_only);
  command
      ->add_option("--target-accuracy", flags->target.accuracy,
                   "End when an evaluation finds so much of the test split "
                   "right")
      ->check(NumberFrom(0.0, 1.0))
      ->excludes(timing_only);
  command
      ->add_option("--target-loss", flags->target.loss,
                   "End when an evaluation finds a test loss at most this")
      ->excludes(timing_only);
  command
      ->add_option("--updates", flags->timing.most_updates,
                   "Measure at most so many updates")
      ->check(WholeFrom(33, int64_t{1} << 40))
      ->needs(timing_only);
  command
      ->add_option("--precision", flags->timing.precision,
                   "End when half the 99% interval of the time per update is "
                   "at most this share of it")
      ->check(NumberFrom(0.0, 1.0))
      ->needs(timing_only);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, exit_code] { *exit_code = Simulate(*flags); });
}

}  // namespace sluice

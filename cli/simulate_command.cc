#include "cli/simulate_command.h"

#include <iostream>
#include <memory>

#include "absl/time/time.h"
#include "cli/job_flags.h"
#include "cli/simulate_report.h"
#include "common/clock.h"
#include "common/resolved_job.h"
#include "sim/timing.h"

namespace sluice {
namespace {

struct SimulateFlags {
  JobFlags job;
  TimingOptions timing;
  bool timing_only = false;
  bool json = false;
};

int Simulate(const SimulateFlags& flags) {
  if (!flags.timing_only) {
    std::cerr << "simulate: expected --timing-only; gradients are not "
                 "simulated in this version\n";
    return 2;
  }
  const absl::StatusOr<ResolvedJob> job = flags.job.Load();
  if (!job.ok()) {
    std::cerr << job.status().message() << "\n";
    return 2;
  }
  const absl::Time began = Clock::Real()->Now();
  const absl::StatusOr<Timing> timing = MeasureTiming(*job, flags.timing);
  if (!timing.ok()) {
    std::cerr << timing.status().message() << "\n";
    return absl::IsInternal(timing.status()) ? 1 : 2;
  }
  PrintTiming(*job, *timing, Clock::Real()->Now() - began, flags.json,
              std::cout);
  return 0;
}

}  // namespace

void AddSimulateCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "simulate", "Run the job's cluster in virtual time (needs delays)");
  auto flags = std::make_shared<SimulateFlags>();
  flags->job.AddTo(*command);
  command->add_flag("--timing-only", flags->timing_only,
                    "Simulate times; compute no gradient");
  command
      ->add_option("--updates", flags->timing.most_updates,
                   "Measure at most so many updates")
      ->check(CLI::Range(int64_t{33}, int64_t{1} << 40));
  command
      ->add_option("--precision", flags->timing.precision,
                   "End when half the 99% interval of the time per update is "
                   "below this share of it")
      ->check(CLI::Range(0.0, 1.0));
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, exit_code] { *exit_code = Simulate(*flags); });
}

}  // namespace sluice

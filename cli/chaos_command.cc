#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/chaos/chaos_run.h"
#include "cli/commands.h"
#include "cli/job_flags.h"
#include "cli/local_cluster.h"
#include "common/clock.h"
#include "common/resolved_job.h"

namespace sluice {
namespace {

struct ChaosFlags {
  JobFlags job;
  ChaosOptions options;
  std::optional<int> stops;
  double patience_s = 60;
  bool no_servers = false;
};

// The job, with checkpoints where it has none.
absl::StatusOr<ResolvedJob> LoadWithCheckpoints(ChaosFlags& flags, int acts) {
  absl::StatusOr<ResolvedJob> job = flags.job.Load();
  if (!job.ok() || job->job.has_checkpoint()) return job;
  const absl::StatusOr<int64_t> updates = UpdatesOf(*job);
  if (!updates.ok()) return updates.status();
  flags.job.set.push_back(absl::StrCat("checkpoint.every_updates=",
                                       CheckpointEveryFor(*updates, acts)));
  return flags.job.Load();
}

int Chaos(ChaosFlags& flags) {
  ChaosOptions& options = flags.options;
  // By default a third of the acts are stops, and another third cuts.
  options.stops = flags.stops.value_or((options.kills + 2) / 3);
  options.patience = absl::Seconds(flags.patience_s);
  options.servers = !flags.no_servers;
  if (flags.no_servers && options.storage_faults > 0) {
    std::cerr << "--storage-faults: only servers use the run folder, and there "
                 "is --no-servers\n";
    return 2;
  }
  if (options.bin_dir.empty()) options.bin_dir = DefaultBinDir();
  const int acts = options.kills + options.stops +
                   options.cuts.value_or(options.stops) +
                   options.storage_faults;
  const absl::StatusOr<ResolvedJob> job = LoadWithCheckpoints(flags, acts);
  if (!job.ok()) {
    std::cerr << job.status().message() << "\n";
    return 2;
  }
  return RunChaos(*job, options, Clock::Real(), std::cout, std::cerr);
}

}  // namespace

void AddChaosCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "chaos", "Train a job while its processes die, and check that all held");
  auto flags = std::make_shared<ChaosFlags>();
  ChaosOptions& options = flags->options;
  flags->job.AddAllButSeedTo(*command);
  command->add_option("--seed", options.seed,
                      "Of what is done, to whom and when; default 1");
  command->add_option("--kills", options.kills, "SIGKILLs; default 6")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option(
          "--stops", flags->stops,
          "SIGSTOPs, with SIGCONT later; default: a third of the kills")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--cuts", options.cuts,
                   "Times that somebody's network is cut; default: as many as "
                   "stops where the system lets it")
      ->check(CLI::NonNegativeNumber);
  command
      ->add_option("--storage-faults", options.storage_faults,
                   "Times that a server's run folder cannot be read, is full, "
                   "or stalls; default 0")
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--no-servers", flags->no_servers,
                    "Leave shards and the coordinator alone");
  command->add_option("--tolerance", options.tolerance,
                      "Of the final accuracy (a regression's loss); default "
                      "0.02");
  command->add_option("--patience", flags->patience_s,
                      "Seconds without an update that are a hang; default 60");
  command->add_option("--run-dir", options.run_dir,
                      "Folder for both runs, new or empty; default "
                      "runs/NAME-chaos-N");
  command->add_option("--undisturbed", options.undisturbed,
                      "Folder of a run of the same job that nobody disturbed");
  command->add_option("--bin-dir", options.bin_dir, "As of train");
  command->add_flag("--json", options.json, "Print one JSON object");
  command->callback([flags, exit_code] { *exit_code = Chaos(*flags); });
}

}  // namespace sluice

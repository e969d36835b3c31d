#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <optional>

#include "absl/time/time.h"
#include "cli/commands.h"
#include "cli/job_flags.h"
#include "cli/report/job/check.h"
#include "cli/report/job/profile.h"
#include "cli/slow_work.h"
#include "common/job/resolved_job.h"
#include "worker/compute/layer_times.h"

namespace sluice {
namespace {

struct CheckFlags {
  JobFlags job;
  bool json = false;
  bool profile = false;
  int at_once = 1;
};

// How long layers are timed.
constexpr absl::Duration kPatience = absl::Seconds(5);

int Check(const CheckFlags& flags) {
  const SlowWork slow("check");
  const absl::StatusOr<ResolvedJob> job = flags.job.Load();
  if (!job.ok()) {
    std::cerr << job.status().message() << "\n";
    return 2;
  }
  std::optional<ProfileReport> profile;
  if (flags.profile) {
    auto times = MeasureLayers(*job, kPatience, flags.at_once);
    if (!times.ok()) {
      std::cerr << "--profile: " << times.status().message() << "\n";
      return 1;
    }
    profile = MakeProfileReport(*job, *std::move(times));
  }
  PrintCheck(*job, profile.has_value() ? &*profile : nullptr, flags.json,
             std::cout);
  return 0;
}

}  // namespace

void AddCheckCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "check", "Print the resolved job and what follows from it");
  auto flags = std::make_shared<CheckFlags>();
  flags->job.AddTo(*command);
  command->add_flag("--json", flags->json, "Print one JSON object");
  CLI::Option* profile = command->add_flag(
      "--profile", flags->profile,
      "Compute some mini-batches here, print how long each layer takes, and "
      "where to cut the model");
  command
      ->add_option(
          "--at-once", flags->at_once,
          "As many processes compute at a time on this machine; default 1")
      ->needs(profile)
      ->check(WholeFrom(1, 256));
  command->callback([flags, exit_code] { *exit_code = Check(*flags); });
}

}  // namespace sluice

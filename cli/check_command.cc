#include <iostream>
#include <memory>

#include "cli/commands.h"
#include "cli/job_flags.h"
#include "cli/report/check.h"
#include "cli/slow_work.h"
#include "common/resolved_job.h"

namespace sluice {
namespace {

struct CheckFlags {
  JobFlags job;
  bool json = false;
};

int Check(const CheckFlags& flags) {
  const SlowWork slow("check");
  const absl::StatusOr<ResolvedJob> job = flags.job.Load();
  if (!job.ok()) {
    std::cerr << job.status().message() << "\n";
    return 2;
  }
  PrintCheck(*job, flags.json, std::cout);
  return 0;
}

}  // namespace

void AddCheckCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "check", "Print the resolved job and what follows from it");
  auto flags = std::make_shared<CheckFlags>();
  flags->job.AddTo(*command);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, exit_code] { *exit_code = Check(*flags); });
}

}  // namespace sluice

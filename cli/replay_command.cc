#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/report/replay_report.h"
#include "cli/report/run_result.h"
#include "cli/slow_work.h"
#include "sim/replay.h"

namespace sluice {
namespace {

struct ReplayFlags {
  std::string run;
  bool json = false;
};

int Replay(const ReplayFlags& flags) {
  const SlowWork slow("replay");
  const absl::StatusOr<RunResult> result = ReadRunResult(flags.run);
  const absl::StatusOr<ReplayReport> report = ReplayRun(flags.run);
  if (!report.ok()) {
    std::cerr << report.status().message() << "\n";
    return 1;
  }
  std::cout << (flags.json ? ReplayJson(*report) : DescribeReplay(*report));
  const absl::Status whole =
      CheckRecordIsWhole(flags.run, result, report->version);
  if (!whole.ok()) std::cerr << whole.message() << "\n";
  return report->same() && whole.ok() ? 0 : 1;
}

}  // namespace

void AddReplayCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "replay", "Recompute a run from its commit log and compare the bits");
  auto flags = std::make_shared<ReplayFlags>();
  command->add_option("run", flags->run, "Run folder")->required();
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, exit_code] { *exit_code = Replay(*flags); });
}

}  // namespace sluice

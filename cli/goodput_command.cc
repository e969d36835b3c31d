#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/report/goodput.h"
#include "cli/report/run_result.h"
#include "cli/run_folder.h"
#include "cli/slow_work.h"

namespace sluice {
namespace {

struct GoodputFlags {
  std::string run;
  bool json = false;
};

int ShowGoodput(const GoodputFlags& flags) {
  if (const absl::Status may = CheckMayRead(flags.run); !may.ok()) {
    std::cerr << may.message() << "\n";
    return 1;
  }
  const SlowWork slow("goodput");
  const absl::StatusOr<RunResult> result = ReadRunResult(flags.run);
  const absl::StatusOr<Goodput> goodput = ReadRunGoodput(flags.run);
  if (!goodput.ok()) {
    std::cerr << goodput.status().message() << "\n";
    return 1;
  }
  std::cout << (flags.json ? GoodputJson(*goodput) : DescribeGoodput(*goodput));
  const absl::Status whole =
      CheckRecordIsWhole(flags.run, result, goodput->version);
  if (!whole.ok()) std::cerr << whole.message() << "\n";
  return whole.ok() ? 0 : 1;
}

}  // namespace

void AddGoodputCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "goodput", "Show which share of the workers' time went into the weights");
  auto flags = std::make_shared<GoodputFlags>();
  command->add_option("run", flags->run, "Run folder")->required();
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, exit_code] { *exit_code = ShowGoodput(*flags); });
}

}  // namespace sluice

#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <string>

#include "cli/commands.h"
#include "cli/report/run_ledger.h"
#include "cli/slow_work.h"

namespace sluice {
namespace {

struct LedgerFlags {
  std::string run;
  bool json = false;
};

int ShowLedger(const LedgerFlags& flags) {
  const SlowWork slow("ledger");
  const absl::StatusOr<Ledger> ledger = ReadRunLedger(flags.run);
  if (!ledger.ok()) {
    std::cerr << ledger.status().message() << "\n";
    return 1;
  }
  std::cout << (flags.json ? LedgerJson(*ledger) : DescribeLedger(*ledger));
  return ledger->exact() ? 0 : 1;
}

}  // namespace

void AddLedgerCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "ledger", "Balance the books of a run: how every gradient ended");
  auto flags = std::make_shared<LedgerFlags>();
  command->add_option("run", flags->run, "Run folder")->required();
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, exit_code] { *exit_code = ShowLedger(*flags); });
}

}  // namespace sluice

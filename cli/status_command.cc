#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/launch/coordinator_watch.h"
#include "cli/launch/signal_wait.h"
#include "cli/report/run_result.h"
#include "cli/report/status_report.h"
#include "cli/run_folder.h"
#include "common/tls/transport_security.h"
#include "ps_server/coordinator/report/status_json.h"

namespace sluice {
namespace {

struct StatusFlags {
  std::string run;
  bool json = false;
  bool watch = false;
  bool counters = false;
  TlsFlags tls;
};

// Often enough for the eye, and next to no work for the coordinator.
constexpr absl::Duration kWatchEvery = absl::Seconds(1);

bool IsFolder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

// Prints the summary of a run whose coordinator does not answer, if it has one.
int ShowWhatIsLeft(const StatusFlags& flags, const absl::Status& silence) {
  const std::string summary = absl::StrCat(flags.run, "/summary.json");
  std::error_code error;
  if (!std::filesystem::exists(summary, error)) {
    std::cerr << flags.run << ": " << silence.message() << "\n";
    return 1;
  }
  if (flags.json) {
    std::cout << std::ifstream(summary).rdbuf();
  } else {
    std::cout << DescribeSummary(flags.run);
  }
  return 0;
}

int Status(const StatusFlags& flags) {
  SignalWait signals;  // Before gRPC starts its threads.
  std::string address = flags.run;
  if (IsFolder(flags.run)) {
    address = CoordinatorAddressOf(flags.run);
    if (address.empty()) {
      return ShowWhatIsLeft(
          flags, absl::UnavailableError("names no coordinator yet: there is "
                                        "no line \"coordinator host:port\" in "
                                        "its file addresses"));
    }
  }
  if (address.find(':') == std::string::npos) {
    std::cerr << flags.run
              << ": is neither the folder of a run nor host:port of a "
                 "coordinator\n";
    return 2;
  }
  // The job is the one that the operator's certificate names.
  const auto security =
      TransportSecurity::Open(flags.tls, /*job=*/"", TlsRole::kOperator);
  if (!security.ok()) {
    std::cerr << security.status().message() << "\n";
    return 2;
  }
  const absl::Status allowed = security->Allow("the coordinator", address);
  if (!allowed.ok()) {
    std::cerr << allowed.message() << "\n";
    return 2;
  }
  CoordinatorWatch watch(address, security->ToLead());
  for (;;) {
    const absl::StatusOr<proto::JobStatus> status = watch.GetStatus();
    if (!status.ok()) return ShowWhatIsLeft(flags, status.status());
    // Clears the screen first, as `watch` does.
    if (flags.watch && !flags.json) std::cout << "\x1b[H\x1b[J";
    std::cout << (flags.json ? StatusJson(*status) : FormatStatus(*status));
    if (flags.counters && !flags.json) {
      std::cout << "\n" << FormatProcessCounters(*status);
    }
    std::cout << std::flush;
    if (!flags.watch || signals.WaitFor(kWatchEvery).has_value()) return 0;
  }
}

}  // namespace

void AddStatusCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand("status", "Print how a run stands");
  auto flags = std::make_shared<StatusFlags>();
  command
      ->add_option("run", flags->run,
                   "Run folder, or host:port of the coordinator")
      ->required();
  command->add_flag("--json", flags->json, "Print JSON objects");
  command->add_flag("--watch", flags->watch, "Again every second");
  command->add_flag("--counters", flags->counters,
                    "Also what each worker and shard has counted, as far as "
                    "it is not 0; --json always has it");
  AddTlsFlags(command, &flags->tls);
  command->callback([flags, exit_code] { *exit_code = Status(*flags); });
}

}  // namespace sluice

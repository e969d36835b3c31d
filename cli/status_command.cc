#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "cli/commands.h"
#include "cli/launch/find_coordinator.h"
#include "cli/launch/signal_wait.h"
#include "cli/report/run_result.h"
#include "cli/report/status_report.h"
#include "cli/run_folder.h"
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

bool HasCheckpoint(const std::string& run_dir) {
  std::error_code error;
  const std::filesystem::directory_iterator folders(
      absl::StrCat(run_dir, "/checkpoints"), error);
  return std::any_of(begin(folders), end(folders), [&](const auto& folder) {
    return std::filesystem::exists(folder.path() / "manifest", error);
  });
}

// What may have become of the run in the folder, which has left no summary.
std::string WhatBecameOf(const std::string& run_dir) {
  std::error_code error;
  if (!std::filesystem::exists(absl::StrCat(run_dir, "/addresses"), error)) {
    return "it has left no summary.json: it is a simulation that was cut off "
           "or goes on, or a run whose shards have not all been there";
  }
  return absl::StrCat(
      "the run does not answer and has left no summary.json: it was killed, "
      "hangs, or is on another network; ",
      HasCheckpoint(run_dir)
          ? absl::StrCat("`sluice train JOB --resume ", run_dir,
                         "` goes on with one that was killed")
          : "one that was killed has no checkpoint to go on from");
}

// Whether somebody answers at the run's address, who is not to be talked to so.
bool IsRefusal(const absl::Status& silence) {
  return absl::StrContains(silence.message(), "--tls") ||
         absl::StrContains(silence.message(), "handshake");
}

// Prints the summary of a run whose coordinator does not answer, if it has one.
int ShowWhatIsLeft(const StatusFlags& flags, const absl::Status& silence) {
  const absl::StatusOr<std::string> text = DescribeSummary(flags.run);
  if (absl::IsNotFound(text.status())) {
    std::cerr << flags.run << ": " << silence.message() << "\n";
    const std::optional<std::string> failure =
        TextOfFile(FailureFileOf(flags.run));
    std::error_code error;
    if (failure.has_value()) {
      std::cerr << *failure;
    } else if (!IsRefusal(silence) &&
               std::filesystem::exists(absl::StrCat(flags.run, "/commit_log"),
                                       error)) {
      std::cerr << WhatBecameOf(flags.run) << "\n";
    }
    return 1;
  }
  if (!text.ok()) {
    std::cerr << text.status().message() << "\n";
    return 1;
  }
  if (flags.json) {
    std::cout
        << std::ifstream(absl::StrCat(flags.run, "/summary.json")).rdbuf();
  } else {
    std::cout << *text;
  }
  return 0;
}

int Status(const StatusFlags& flags) {
  SignalWait signals;  // Before gRPC starts its threads.
  const auto watch = FindCoordinator(flags.run, flags.tls);
  if (absl::IsUnavailable(watch.status())) {
    return ShowWhatIsLeft(flags, watch.status());
  }
  if (!watch.ok()) {
    std::cerr << watch.status().message() << "\n";
    return 2;
  }
  for (;;) {
    const absl::StatusOr<proto::JobStatus> status = (*watch)->GetStatus();
    if (!status.ok()) return ShowWhatIsLeft(flags, status.status());
    // Clears the screen first, as `watch` does.
    if (flags.watch && !flags.json) std::cout << "\x1b[H\x1b[J";
    std::cout << (flags.json ? StatusJson(*status) : FormatStatus(*status));
    if (flags.counters && !flags.json) {
      std::cout << "\n" << FormatProcessCounters(*status);
    }
    std::cout << std::flush;
    const bool again = flags.watch && std::cout.good();  // Somebody reads it.
    if (!again || signals.WaitFor(kWatchEvery).has_value()) return 0;
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

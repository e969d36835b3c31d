#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/commands.h"
#include "cli/launch/coordinator_watch.h"
#include "cli/launch/find_coordinator.h"
#include "cli/launch/signal_wait.h"
#include "cli/report/run_result.h"
#include "cli/run_folder.h"
#include "cli/slow_work.h"
#include "common/clock.h"
#include "common/tls/tls_flags.h"

namespace sluice {
namespace {

struct StopFlags {
  std::string run;
  bool json = false;
  TlsFlags tls;
};

constexpr absl::Duration kLookEvery = absl::Milliseconds(200);

// Prints how the run ended, if it has left a summary. Returns the exit status;
// nullopt: it has left none.
std::optional<int> ShowSummary(const StopFlags& flags) {
  const absl::StatusOr<RunResult> result = ReadRunResult(flags.run);
  const absl::StatusOr<std::string> text = DescribeSummary(flags.run);
  if (!result.ok() || !text.ok()) return std::nullopt;
  std::cout << (flags.json
                    ? TextOfFile(flags.run + "/summary.json").value_or("")
                    : *text);
  return result->failure.empty() ? 0 : 1;
}

// `last`: how the run stood when its coordinator was heard of last. `silence`:
// why it is heard of no more, unless the run was over by then.
int ShowEnd(const StopFlags& flags, const proto::JobStatus& last,
            const absl::Status& silence) {
  if (last.phase() == "failed") {
    std::cerr << flags.run << ": the run failed: " << last.message() << "\n";
    return 1;
  }
  if (const auto shown = ShowSummary(flags); shown.has_value()) return *shown;
  std::error_code error;
  const bool folder = std::filesystem::is_directory(flags.run, error);
  // It listens no more. In its folder there would be a summary.
  const bool ended = absl::IsUnavailable(silence) && !folder;
  if (IsOver(last) || (last.phase() == "finishing" && ended)) {
    std::cout << (flags.json ? "{\"version\": "
                             : "the run has ended at version ")
              << last.version() << (flags.json ? "}\n" : "\n");
    return 0;
  }
  std::cerr << flags.run << ": the coordinator answers no more"
            << (folder ? " and has left no summary.json" : "")
            << "; the run was " << last.phase() << ": " << silence.message()
            << "\n";
  return 1;
}

// Whether a coordinator that has answered before is to be waited for no longer,
// as it has been silent for `silent`, and now says `status`.
bool IsGone(const absl::Status& status, absl::Duration silent) {
  if (status.ok()) return false;
  // It is held up, or ends in the middle of a call.
  const bool may_answer =
      absl::IsDeadlineExceeded(status) || absl::IsCancelled(status);
  return !may_answer || silent >= kLeadIsGoneAfter;
}

int Stop(const StopFlags& flags) {
  SignalWait signals;  // Before gRPC starts its threads.
  const auto watch = FindCoordinator(flags.run, flags.tls);
  if (absl::IsInvalidArgument(watch.status())) {
    std::cerr << watch.status().message() << "\n";
    return 2;
  }
  absl::StatusOr<proto::JobStatus> status =
      watch.ok() ? (*watch)->GetStatus()
                 : absl::StatusOr<proto::JobStatus>(watch.status());
  if (!status.ok()) {
    // A run that is resumed has no address until its coordinator listens, and
    // still the summary of its former end.
    const auto shown = watch.ok() ? ShowSummary(flags) : std::nullopt;
    if (shown.has_value()) return *shown;
    std::cerr << flags.run << ": " << status.status().message() << "\n";
    const absl::Status summary = ReadRunResult(flags.run).status();
    if (absl::IsDataLoss(summary)) std::cerr << summary.message() << "\n";
    return 1;
  }
  SlowWork slow("stop", "version");
  proto::JobStatus last = *status;
  bool asked = false;
  Clock* const clock = Clock::Real();
  absl::Time heard = clock->Now();
  while (!IsOver(last) && !IsGone(status.status(), clock->Now() - heard)) {
    slow.At(last.version(), last.waiting_for());
    // A generation that was asked may have ended before it did so.
    if (!asked || last.phase() != "finishing") {
      const auto stopping = (*watch)->Stop("stopped by the user");
      asked = stopping.ok();
      // Its coordinator may be gone before it is asked again.
      if (asked) last = *stopping;
    }
    if (signals.WaitFor(kLookEvery).has_value()) {
      std::cerr << flags.run
                << ": not waited for: the run stops all the same\n";
      return kInterrupted;
    }
    status = (*watch)->GetStatus();
    if (!status.ok()) continue;
    last = *status;
    heard = clock->Now();
  }
  return ShowEnd(flags, last, status.status());
}

}  // namespace

void AddStopCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "stop", "Have a run end now, with what it has, and wait for it");
  auto flags = std::make_shared<StopFlags>();
  command
      ->add_option("run", flags->run,
                   "Run folder, or host:port of the coordinator")
      ->required();
  command->add_flag("--json", flags->json, "Print the run's summary.json");
  AddTlsFlags(command, &flags->tls);
  command->callback([flags, exit_code] { *exit_code = Stop(*flags); });
}

}  // namespace sluice

#include <CLI/CLI.hpp>
#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/commands.h"
#include "cli/launch/coordinator_watch.h"
#include "cli/launch/find_coordinator.h"
#include "cli/launch/signal_wait.h"
#include "cli/report/checkpoint_outcome.h"
#include "cli/report/checkpoint_report.h"
#include "cli/report/run_result.h"
#include "cli/slow_work.h"
#include "common/clock.h"
#include "common/status_macros.h"
#include "common/telemetry/json_text.h"
#include "common/tls/tls_flags.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

struct CheckpointFlags {
  std::string checkpoint;
  std::string out;
  bool json = false;
};

absl::StatusOr<Checkpoint> Find(const std::string& path) {
  std::vector<std::string> passed_over;
  absl::StatusOr<Checkpoint> found = FindCheckpoint(path, &passed_over);
  for (const std::string& line : passed_over) {
    std::cerr << "passed over " << line << "\n";
  }
  if (!found.ok()) std::cerr << found.status().message() << "\n";
  return found;
}

int Inspect(const CheckpointFlags& flags) {
  const SlowWork slow("inspect");
  const auto found = Find(flags.checkpoint);
  if (!found.ok()) return 1;
  std::cout << (flags.json ? CheckpointJson(*found)
                           : DescribeCheckpoint(*found));
  return 0;
}

int Export(const CheckpointFlags& flags) {
  const SlowWork slow("export");
  const auto found = Find(flags.checkpoint);
  if (!found.ok()) return 1;
  const absl::Status status = ExportWeights(*found, flags.out);
  if (!status.ok()) {
    std::cerr << status.message() << "\n";
    return absl::IsInvalidArgument(status) ? 2 : 1;
  }
  if (flags.json) {
    const nlohmann::ordered_json json = {
        {"file", flags.out},
        {"generation", found->manifest().generation()},
        {"version", found->manifest().version()}};
    std::cout << JsonText(json, 2) << "\n";
  }
  return 0;
}

// Often enough for one who waits for it, and next to no work for the
// coordinator.
constexpr absl::Duration kLookEvery = absl::Milliseconds(200);

struct TakeFlags {
  std::string run;
  bool json = false;
  TlsFlags tls;
};

// How the run stands, or stood in the end, where its folder is known.
absl::StatusOr<proto::JobStatus> StatusOf(const std::string& run,
                                          CoordinatorWatch* watch) {
  absl::StatusOr<proto::JobStatus> status = watch->GetStatus();
  if (status.ok()) return status;
  absl::StatusOr<proto::JobStatus> finished = ReadFinishedStatus(run);
  return finished.ok() ? finished : status;
}

// Whether a lead that is being started again, or is held up, may have said it.
bool IsSilence(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsCancelled(status);
}

// Waits until `version`, which is asked for, is written. `before`: how the run
// stood then.
absl::Status AwaitWritten(const std::string& run, int64_t version,
                          const proto::JobStatus& before,
                          CoordinatorWatch* watch, SignalWait* signals) {
  SlowWork slow("checkpoint", "version");
  Clock* const clock = Clock::Real();
  absl::Time heard = clock->Now();
  for (;;) {
    const absl::StatusOr<proto::JobStatus> now = StatusOf(run, watch);
    if (now.ok()) {
      heard = clock->Now();
      slow.At(now->version(), now->waiting_for());
      const auto outcome = CheckpointOutcome(version, before, *now);
      if (outcome.has_value()) return *outcome;
    } else if (!IsSilence(now.status()) ||
               clock->Now() - heard >= kLeadIsGoneAfter) {
      return now.status();
    }
    if (signals->WaitFor(kLookEvery).has_value()) {
      return absl::CancelledError(absl::StrCat(
          "not waited for: version ", version, " is written all the same"));
    }
  }
}

int Take(const TakeFlags& flags) {
  SignalWait signals;  // Before gRPC starts its threads.
  const auto fail = [&flags](const absl::Status& status) {
    std::cerr << flags.run << ": " << status.message() << "\n";
    return absl::IsCancelled(status) ? kInterrupted : 1;
  };
  const auto watch = FindCoordinator(flags.run, flags.tls);
  if (absl::IsInvalidArgument(watch.status())) {
    std::cerr << watch.status().message() << "\n";
    return 2;
  }
  if (!watch.ok()) return fail(watch.status());
  const auto before = StatusOf(flags.run, watch->get());
  if (!before.ok()) return fail(before.status());
  if (IsOver(*before)) {
    return fail(absl::FailedPreconditionError(
        absl::StrCat("the run is over: ", before->message())));
  }
  const auto version = (*watch)->RequestCheckpoint();
  if (!version.ok()) return fail(version.status());
  const absl::Status written =
      AwaitWritten(flags.run, *version, *before, watch->get(), &signals);
  if (!written.ok()) return fail(written);
  if (flags.json) {
    std::cout << "{\"version\": " << *version << "}\n";
  } else {
    std::cout << "checkpoint of version " << *version << " is written\n";
  }
  return 0;
}

constexpr char kWhich[] =
    "Folder of a checkpoint, or of a run: then its newest whole one";

}  // namespace

void AddCheckpointCommands(CLI::App& app, int* exit_code) {
  auto flags = std::make_shared<CheckpointFlags>();
  CLI::App* inspect = app.add_subcommand(
      "inspect", "Compare a checkpoint's checksums and print what is in it");
  inspect->add_option("checkpoint", flags->checkpoint, kWhich)->required();
  inspect->add_flag("--json", flags->json, "Print one JSON object");
  inspect->callback([flags, exit_code] { *exit_code = Inspect(*flags); });

  auto take_flags = std::make_shared<TakeFlags>();
  CLI::App* take = app.add_subcommand(
      "checkpoint", "Have a run write a checkpoint now, and wait for it");
  take->add_option("run", take_flags->run,
                   "Run folder, or host:port of the coordinator")
      ->required();
  take->add_flag("--json", take_flags->json, "Print one JSON object");
  AddTlsFlags(take, &take_flags->tls);
  take->callback([take_flags, exit_code] { *exit_code = Take(*take_flags); });

  CLI::App* command = app.add_subcommand(
      "export", "Write a checkpoint's weights as one .safetensors file");
  command->add_option("checkpoint", flags->checkpoint, kWhich)->required();
  command->add_option("file", flags->out, "Written, or replaced")->required();
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, exit_code] { *exit_code = Export(*flags); });
}

}  // namespace sluice

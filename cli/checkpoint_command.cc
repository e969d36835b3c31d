#include <cstdint>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "cli/commands.h"
#include "cli/launch/find_coordinator.h"
#include "cli/launch/signal_wait.h"
#include "cli/report/checkpoint_report.h"
#include "cli/slow_work.h"
#include "common/status_macros.h"
#include "common/tls/tls_flags.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

struct CheckpointFlags {
  std::string checkpoint;
  std::string out;
  bool json = false;
};

absl::StatusOr<Checkpoint> Find(const std::string &path) {
  std::vector<std::string> passed_over;
  absl::StatusOr<Checkpoint> found = FindCheckpoint(path, &passed_over);
  for (const std::string &line : passed_over) {
    std::cerr << "passed over " << line << "\n";
  }
  if (!found.ok()) std::cerr << found.status().message() << "\n";
  return found;
}

int Inspect(const CheckpointFlags &flags) {
  const SlowWork slow("inspect");
  const auto found = Find(flags.checkpoint);
  if (!found.ok()) return 1;
  std::cout << (flags.json ? CheckpointJson(*found)
                           : DescribeCheckpoint(*found));
  return 0;
}

int Export(const CheckpointFlags &flags) {
  const SlowWork slow("export");
  const auto found = Find(flags.checkpoint);
  if (!found.ok()) return 1;
  const absl::Status status = ExportWeights(*found, flags.out);
  if (!status.ok()) {
    std::cerr << status.message() << "\n";
    return 1;
  }
  if (flags.json) {
    const nlohmann::ordered_json json = {
        {"file", flags.out},
        {"generation", found->manifest().generation()},
        {"version", found->manifest().version()}};
    std::cout << json.dump(2) << "\n";
  }
  return 0;
}

// Often enough for one who waits for it, and next to no work for the
// coordinator.
constexpr absl::Duration kLookEvery = absl::Milliseconds(200);

// Exit status of one whom a signal has ended, as a shell has it for Ctrl-C.
constexpr int kInterrupted = 130;

struct TakeFlags {
  std::string run;
  bool json = false;
  TlsFlags tls;
};

int64_t Failed(const proto::JobStatus &status) {
  const auto failed = status.counters().find("checkpoints.failed");
  return failed == status.counters().end() ? 0 : failed->second;
}

// Waits until `version`, which is asked for, is written. `before`: how the run
// stood then.
absl::Status AwaitWritten(int64_t version, const proto::JobStatus &before,
                          CoordinatorWatch *watch, SignalWait *signals) {
  for (;;) {
    SLUICE_ASSIGN_OR_RETURN(const proto::JobStatus status, watch->GetStatus());
    const proto::CheckpointStatus &checkpoint = status.checkpoint();
    if (status.generation() != before.generation()) {
      return absl::AbortedError(absl::StrCat(
          "the shards or the coordinator were lost before version ", version,
          " was written; generation ", status.generation(), " goes on from ",
          "version ", status.recovery().restored_version()));
    }
    if (checkpoint.has_newest_version() &&
        checkpoint.newest_version() >= version) {
      return absl::OkStatus();
    }
    if (Failed(status) > Failed(before)) {
      return absl::UnavailableError(checkpoint.last_error());
    }
    if (signals->WaitFor(kLookEvery).has_value()) {
      return absl::CancelledError(absl::StrCat(
          "not waited for: version ", version, " is written all the same"));
    }
  }
}

int Take(const TakeFlags &flags) {
  SignalWait signals;  // Before gRPC starts its threads.
  const auto fail = [](const absl::Status &status, int code) {
    std::cerr << status.message() << "\n";
    return code;
  };
  const auto watch = FindCoordinator(flags.run, flags.tls);
  if (!watch.ok()) {
    return fail(watch.status(), absl::IsUnavailable(watch.status()) ? 1 : 2);
  }
  const auto before = (*watch)->GetStatus();
  if (!before.ok()) return fail(before.status(), 1);
  const auto version = (*watch)->RequestCheckpoint();
  if (!version.ok()) return fail(version.status(), 1);
  const absl::Status written =
      AwaitWritten(*version, *before, watch->get(), &signals);
  if (!written.ok()) {
    return fail(written, absl::IsCancelled(written) ? kInterrupted : 1);
  }
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

void AddCheckpointCommands(CLI::App &app, int *exit_code) {
  auto flags = std::make_shared<CheckpointFlags>();
  CLI::App *inspect = app.add_subcommand(
      "inspect", "Compare a checkpoint's checksums and print what is in it");
  inspect->add_option("checkpoint", flags->checkpoint, kWhich)->required();
  inspect->add_flag("--json", flags->json, "Print one JSON object");
  inspect->callback([flags, exit_code] { *exit_code = Inspect(*flags); });

  auto take_flags = std::make_shared<TakeFlags>();
  CLI::App *take = app.add_subcommand(
      "checkpoint", "Have a run write a checkpoint now, and wait for it");
  take->add_option("run", take_flags->run,
                   "Run folder, or host:port of the coordinator")
      ->required();
  take->add_flag("--json", take_flags->json, "Print one JSON object");
  AddTlsFlags(take, &take_flags->tls);
  take->callback([take_flags, exit_code] { *exit_code = Take(*take_flags); });

  CLI::App *command = app.add_subcommand(
      "export", "Write a checkpoint's weights as one .safetensors file");
  command->add_option("checkpoint", flags->checkpoint, kWhich)->required();
  command->add_option("file", flags->out, "Written, or replaced")->required();
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback([flags, exit_code] { *exit_code = Export(*flags); });
}

}  // namespace sluice

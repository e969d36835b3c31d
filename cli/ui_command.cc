#include <sys/random.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "cli/commands.h"
#include "cli/launch/coordinator_watch.h"
#include "cli/launch/signal_wait.h"
#include "cli/report/run_result.h"
#include "cli/run_folder.h"
#include "common/host_port.h"
#include "common/http/http_port.h"
#include "common/status_macros.h"
#include "common/telemetry/json_text.h"
#include "common/tls/transport_security.h"
#include "ps_server/live/live_pages.h"

namespace sluice {
namespace {

struct UiFlags {
  std::string run;
  std::string http = "127.0.0.1:0";
  TlsFlags tls;
  bool json = false;
};

// A run as its folder and its coordinator, if there is one, say it stands.
//
// Thread-safe.
class ShownRun {
 public:
  ShownRun(std::string run_dir, TransportSecurity security)
      : run_dir_(std::move(run_dir)), security_(std::move(security)) {}

  absl::StatusOr<proto::JobStatus> Status() {
    absl::MutexLock lock(&mu_);
    absl::Status silence = Find();
    if (silence.ok()) {
      const auto status = watch_->GetStatus();
      if (status.ok()) return status;
      silence = status.status();
    }
    const auto finished = ReadFinishedStatus(run_dir_);
    if (finished.ok() || absl::IsDataLoss(finished.status())) return finished;
    return absl::UnavailableError(absl::StrCat(
        "its coordinator does not answer and there is no summary.json: ",
        silence.message()));
  }

  absl::Status Stop() {
    absl::MutexLock lock(&mu_);
    const absl::Status found = Find();
    return OrItsEnd(found.ok() ? watch_->Stop("asked for on its page").status()
                               : found);
  }

  absl::StatusOr<int64_t> RequestCheckpoint() {
    absl::MutexLock lock(&mu_);
    const absl::Status found = Find();
    const absl::StatusOr<int64_t> version =
        found.ok() ? watch_->RequestCheckpoint() : found;
    if (!version.ok()) return OrItsEnd(version.status());
    return version;
  }

 private:
  // Why a request failed: `status`, unless nobody answers since the run is
  // over.
  absl::Status OrItsEnd(absl::Status status) const {
    const auto finished = ReadFinishedStatus(run_dir_);
    if (!absl::IsUnavailable(status) || !finished.ok()) return status;
    return absl::FailedPreconditionError(
        absl::StrCat("the run is over: ", finished->message()));
  }

  // The coordinator may have another address after a recovery.
  absl::Status Find() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    const LeadAddress address = LeadAddressOf(run_dir_);
    if (address.host_port.empty()) {
      return absl::UnavailableError(
          absl::StrCat(run_dir_, "/addresses names no coordinator yet"));
    }
    if (watch_ != nullptr && address == address_) return absl::OkStatus();
    const absl::Status allowed =
        security_.Allow("the coordinator", address.host_port);
    if (!allowed.ok()) return allowed;
    watch_ = std::make_unique<CoordinatorWatch>(address, security_.ToLead());
    address_ = address;
    return absl::OkStatus();
  }

  // Constant after construction.
  const std::string run_dir_;
  const TransportSecurity security_;

  absl::Mutex mu_;
  LeadAddress address_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<CoordinatorWatch> watch_ ABSL_GUARDED_BY(mu_);
};

// 128 bits that nobody can guess: the system's, not those of common/random.h.
std::string DrawToken() {
  std::string bits(16, '\0');
  SLUICE_CHECK(getrandom(bits.data(), bits.size(), /*flags=*/0) ==
               static_cast<ssize_t>(bits.size()));
  return absl::BytesToHexString(bits);
}

HttpAnswer Refused(const absl::Status& why) {
  return {.code = 503, .body = absl::StrCat(why.message(), "\n")};
}

// Also of one that has only begun.
bool IsRunFolder(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(folder + "/job.textproto", error) ||
         std::filesystem::exists(folder + "/addresses", error) ||
         std::filesystem::exists(folder + "/summary.json", error);
}

int ShowUi(const UiFlags& flags) {
  SignalWait signals;  // Before gRPC starts its threads.
  if (const absl::Status may = CheckMayRead(flags.run); !may.ok()) {
    std::cerr << may.message() << "\n";
    return 2;
  }
  if (!IsRunFolder(flags.run)) {
    std::cerr << flags.run
              << ": is not the folder of a run, which has a job.textproto, "
                 "addresses or summary.json\n";
    return 2;
  }
  const absl::StatusOr<HostPort> at = ParseHostPort(flags.http);
  if (!at.ok()) {
    std::cerr << "--http: " << at.status().message() << "\n";
    return 2;
  }
  if (!at->IsLoopback()) {
    std::cerr << "--http: expected an address that only this machine reaches, "
                 "such as 127.0.0.1:8080, is "
              << flags.http
              << "; from elsewhere, ssh -L forwards a port to it\n";
    return 2;
  }
  auto security =
      TransportSecurity::Open(flags.tls, /*job=*/"", TlsRole::kOperator);
  if (!security.ok()) {
    std::cerr << security.status().message() << "\n";
    return 2;
  }
  ShownRun run(flags.run, *std::move(security));
  HttpAccess access;
  access.hosts = {"localhost", "127.0.0.1", "[::1]"};
  access.hosts.emplace_back(  // Another of the loopback's.
      absl::StripSuffix(HostPort{at->host, 0}.ToString(), ":0"));
  access.token = DrawToken();
  access.actions["/api/stop"] = [&run](const HttpArguments&) {
    const absl::Status stopped = run.Stop();
    return stopped.ok() ? HttpAnswer{.body = "the run ends\n"}
                        : Refused(stopped);
  };
  access.actions["/api/checkpoint"] = [&run](const HttpArguments&) {
    const auto version = run.RequestCheckpoint();
    if (!version.ok()) return Refused(version.status());
    return HttpAnswer{
        .body = absl::StrCat("version ", *version, " will be written\n")};
  };
  const std::string token = access.token;
  const auto port = HttpPort::Open(
      flags.http, LivePages([&run] { return run.Status(); }, flags.run),
      std::move(access));
  if (!port.ok()) {
    std::cerr << port.status().message() << "\n";
    return 1;
  }
  const std::string url = absl::StrCat(
      "http://", HostPort{at->host, (*port)->port()}.ToString(), "/#", token);
  if (flags.json) {
    std::cout << JsonText({{"url", url}}) << std::endl;
  } else {
    std::cout << flags.run << " is shown at " << url << "\nEnd it with Ctrl-C."
              << std::endl;
  }
  while (!signals.WaitFor(absl::Hours(1)).has_value()) {
  }
  return 0;
}

}  // namespace

void AddUiCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "ui", "Show a run in the browser, while it goes on or when it is over");
  auto flags = std::make_shared<UiFlags>();
  command->add_option("run", flags->run, "Run folder")->required();
  command
      ->add_option("--http", flags->http,
                   "host:port to listen on, port 0: a free one")
      ->capture_default_str();
  AddTlsFlags(command, &flags->tls);
  command->add_flag("--json", flags->json,
                    "Print its address in one JSON object");
  command->callback([flags, exit_code] { *exit_code = ShowUi(*flags); });
}

}  // namespace sluice

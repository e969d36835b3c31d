#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "cli/commands.h"
#include "cli/launch/coordinator_watch.h"
#include "cli/launch/find_coordinator.h"
#include "cli/launch/signal_wait.h"
#include "cli/report/run_result.h"
#include "cli/run_folder.h"
#include "cli/slow_work.h"
#include "cli/tensorboard/event_records.h"
#include "common/clock.h"
#include "common/telemetry/json_text.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

// As often as the coordinator writes a line.
constexpr absl::Duration kLookEvery = absl::Seconds(1);
// So few that a signal is soon seen.
constexpr int kLinesAtOnce = 1000;
// Written again by each call, so that a run is there once.
constexpr char kFileName[] = "events.out.tfevents.0.sluice";

struct ExportFlags {
  std::string run;
  std::string out;  // Empty: RUN/tensorboard.
  bool follow = false;
  bool json = false;
  TlsFlags tls;
};

// When the run's own seconds began, in seconds since 1970, as its last line
// stands at the time at which metrics.jsonl was written last. (Other files are
// written anew when a run goes on after a death or another day.)
double StartedAt(const std::string& metrics_path) {
  struct stat found = {};
  if (stat(metrics_path.c_str(), &found) != 0) return 0;
  const double written = static_cast<double>(found.st_mtim.tv_sec) +
                         1e-9 * static_cast<double>(found.st_mtim.tv_nsec);
  double seconds = 0;
  const std::string tail = TailOfFile(metrics_path, 2, "");
  // The last may be cut short.
  for (const absl::string_view line : absl::StrSplit(tail, '\n')) {
    const auto json = nlohmann::json::parse(line.begin(), line.end(), nullptr,
                                            /*allow_exceptions=*/false);
    if (!json.is_object()) continue;
    const auto there = json.find("seconds");
    if (there != json.end() && there->is_number()) seconds = *there;
  }
  return written - seconds;
}

bool Exists(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

// From metrics.jsonl to the event file, as far as there are whole lines. Lines
// that are none, as a full disk may leave them, are passed over and named.
class Export {
 public:
  Export(std::string metrics_path, std::ifstream metrics, std::string path,
         double started)
      : metrics_path_(std::move(metrics_path)),
        in_(std::move(metrics)),
        events_path_(std::move(path)),
        out_(events_path_, std::ios::binary | std::ios::trunc),
        records_(started) {
    out_ << records_.Head();
  }

  // Takes some lines; returns how many, 0: there are no more yet. kUnavailable:
  // a file cannot be read or written.
  absl::StatusOr<int> Advance() {
    in_.clear();  // Of having reached the end.
    int taken = 0;
    std::string part;
    while (taken < kLinesAtOnce && std::getline(in_, part)) {
      line_ += part;
      if (in_.eof()) break;  // The rest of the line is not there yet.
      ++taken;
      ++lines_;
      const absl::StatusOr<std::string> records = records_.Add(line_);
      if (records.ok()) {
        out_ << *records;
      } else {
        ++passed_over_;
        std::cerr << metrics_path_ << ":" << lines_
                  << ": passed over: " << records.status().message() << "\n";
      }
      line_.clear();
    }
    if (in_.bad()) {
      return absl::UnavailableError(
          absl::StrCat(metrics_path_, ": cannot be read"));
    }
    out_.flush();
    if (out_) return taken;
    return absl::UnavailableError(
        absl::StrCat(events_path_, ": cannot be written"));
  }

  std::string Json() const {
    const nlohmann::ordered_json json = {{"file", events_path_},
                                         {"lines", lines_ - passed_over_},
                                         {"passed_over", passed_over_},
                                         {"cut_short", !line_.empty()}};
    return JsonText(json, 2) + "\n";
  }

  std::string Summary() const {
    return absl::StrCat(lines_ - passed_over_, " lines in ", events_path_,
                        line_.empty() ? ""
                                      : "; the last one is cut short and left "
                                        "out",
                        "\n");
  }

 private:
  const std::string metrics_path_;  // Constant after construction.
  std::ifstream in_;
  const std::string events_path_;  // Constant after construction.
  std::ofstream out_;
  EventRecords records_;
  std::string line_;         // Of which more may come.
  int64_t lines_ = 0;        // Whole ones.
  int64_t passed_over_ = 0;  // Of them.
};

// How the run stands, if its coordinator answers; else why not.
absl::StatusOr<proto::JobStatus> AskCoordinator(const ExportFlags& flags) {
  const auto watch = FindCoordinator(flags.run, flags.tls);
  if (!watch.ok()) return watch.status();
  return (*watch)->GetStatus();
}

// Takes lines until the run is over or there is a signal. kDeadlineExceeded:
// nobody writes lines any longer. Other errors as Export::Advance.
absl::Status Follow(const ExportFlags& flags, SignalWait* signals,
                    Export* events) {
  Clock* const clock = Clock::Real();
  absl::Time heard = clock->Now();  // Of the run.
  while (true) {
    // It is written after the last line. A run that was resumed has that of its
    // former end until its first update.
    const bool has_ended = Exists(absl::StrCat(flags.run, "/summary.json"));
    const absl::StatusOr<int> taken = events->Advance();
    if (!taken.ok()) return taken.status();
    absl::Status silence;
    if (*taken == 0) {
      const auto status = AskCoordinator(flags);
      const bool over = has_ended && (!status.ok() || IsOver(*status));
      if (over) return absl::OkStatus();
      silence = status.status();
      if (!silence.ok() && Exists(FailureFileOf(flags.run))) {
        return absl::OkStatus();
      }
    }
    if (silence.ok()) heard = clock->Now();
    if (clock->Now() - heard >= kLeadIsGoneAfter) {
      return absl::DeadlineExceededError(absl::StrCat(
          flags.run, ": not followed any longer: for ",
          absl::FormatDuration(kLeadIsGoneAfter),
          " there was no new line, and the coordinator does not answer: ",
          silence.message()));
    }
    const auto signal =
        signals->WaitFor(*taken == 0 ? kLookEvery : absl::ZeroDuration());
    if (signal.has_value() && *signal != SIGCHLD) return absl::OkStatus();
  }
}

absl::Status TakeAll(Export* events) {
  const SlowWork slow("export-tensorboard");
  absl::StatusOr<int> taken = events->Advance();
  while (taken.ok() && *taken > 0) taken = events->Advance();
  return taken.status();
}

int ExportTensorboard(const ExportFlags& flags) {
  std::optional<SignalWait> signals;  // Before gRPC starts its threads.
  if (flags.follow) signals.emplace();
  if (const absl::Status may = CheckMayRead(flags.run); !may.ok()) {
    std::cerr << may.message() << "\n";
    return 1;
  }
  const std::string path = absl::StrCat(flags.run, "/metrics.jsonl");
  std::ifstream metrics(path);
  if (!metrics) {
    std::cerr << path << ": cannot be read, expected the folder of a run\n";
    return 1;
  }
  const std::string out =
      flags.out.empty() ? absl::StrCat(flags.run, "/tensorboard") : flags.out;
  std::error_code error;
  std::filesystem::create_directories(out, error);
  Export events(path, std::move(metrics), absl::StrCat(out, "/", kFileName),
                StartedAt(path));
  const absl::Status status =
      flags.follow ? Follow(flags, &*signals, &events) : TakeAll(&events);
  if (status.ok() || absl::IsDeadlineExceeded(status)) {
    std::cout << (flags.json ? events.Json() : events.Summary());
  }
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}

}  // namespace

void AddExportTensorboardCommand(CLI::App& app, int* exit_code) {
  CLI::App* command = app.add_subcommand(
      "export-tensorboard", "Write a run's metrics as TensorBoard reads them");
  auto flags = std::make_shared<ExportFlags>();
  command->add_option("run", flags->run, "Run folder")->required();
  command->add_option("--out", flags->out,
                      "Folder of the event file; default RUN/tensorboard");
  command->add_flag("--follow", flags->follow,
                    "Go on until the run is over, or Ctrl-C");
  AddTlsFlags(command, &flags->tls);
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback(
      [flags, exit_code] { *exit_code = ExportTensorboard(*flags); });
}

}  // namespace sluice

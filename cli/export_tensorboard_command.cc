#include <sys/stat.h>

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
#include "cli/commands.h"
#include "cli/launch/signal_wait.h"
#include "cli/slow_work.h"
#include "cli/tensorboard/event_records.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

// As often as the coordinator writes a line.
constexpr absl::Duration kLookEvery = absl::Seconds(1);
// Written again by each call, so that a run is there once.
constexpr char kFileName[] = "events.out.tfevents.0.sluice";

struct ExportFlags {
  std::string run;
  std::string out;  // Empty: RUN/tensorboard.
  bool follow = false;
  bool json = false;
};

// When the file was written last, in seconds since 1970; 0: there is none.
double WrittenAt(const std::string& path) {
  struct stat found = {};
  if (stat(path.c_str(), &found) != 0) return 0;
  return static_cast<double>(found.st_mtim.tv_sec);
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

  // kUnavailable: the event file cannot be written.
  absl::Status Advance() {
    in_.clear();  // Of having reached the end.
    std::string part;
    while (std::getline(in_, part)) {
      line_ += part;
      if (in_.eof()) break;  // The rest of the line is not there yet.
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
    out_.flush();
    if (out_) return absl::OkStatus();
    return absl::UnavailableError(
        absl::StrCat(events_path_, ": cannot be written"));
  }

  std::string Json() const {
    const nlohmann::ordered_json json = {{"file", events_path_},
                                         {"lines", lines_ - passed_over_},
                                         {"passed_over", passed_over_},
                                         {"cut_short", !line_.empty()}};
    return json.dump(2) + "\n";
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

int ExportTensorboard(const ExportFlags& flags) {
  SignalWait signals;
  std::optional<SlowWork> slow;
  if (!flags.follow) slow.emplace("export-tensorboard");  // Else it waits.
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
                WrittenAt(absl::StrCat(flags.run, "/job.textproto")));
  while (true) {
    // It is written after the last line.
    const bool over = Exists(absl::StrCat(flags.run, "/summary.json"));
    const absl::Status status = events.Advance();
    if (!status.ok()) {
      std::cerr << status.message() << "\n";
      return 1;
    }
    if (!flags.follow || over) break;
    const std::optional<int> signal = signals.WaitFor(kLookEvery);
    if (signal.has_value() && *signal != SIGCHLD) break;
  }
  std::cout << (flags.json ? events.Json() : events.Summary());
  return 0;
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
  command->add_flag("--json", flags->json, "Print one JSON object");
  command->callback(
      [flags, exit_code] { *exit_code = ExportTensorboard(*flags); });
}

}  // namespace sluice

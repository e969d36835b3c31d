// Logs are read on from where the last Follow stopped (file_, read_), a few MiB
// at a time, so that a page is answered soon however long the run is. Of two
// generations
//
//   1     versions 0 to 40
//   2     goes on from 30
//
// the first was read to its end before the second began. Its updates 31 to 40
// were counted as applied then, and are lost now: the file's `kept` changes,
// so all is read again from the first file (StartAgain).
#include "ps_server/live/task_history.h"

#include <algorithm>
#include <deque>
#include <map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/files/input_file.h"
#include "common/status_macros.h"
#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/log/commit_log_file.h"
#include "ps_server/coordinator/log/generations.h"

namespace sluice {
namespace {

using Json = nlohmann::ordered_json;

// Of each worker, beyond the newest; fewer where there are many workers.
constexpr size_t kRecentTasks = 30;
constexpr size_t kRecentTasksOfAll = 2000;

Json SecondsJson(const WorkerSeconds& time) {
  Json seconds = Json::object();
  for (const TimeCause& cause : kTimeCauses) {
    seconds[cause.name] = time.*cause.seconds;
  }
  return seconds;
}

Json TasksJson(const std::deque<TaskSpan>& tasks, size_t most) {
  Json json = Json::array();
  for (size_t i = tasks.size() - std::min(most, tasks.size()); i < tasks.size();
       ++i) {
    const TaskSpan& task = tasks[i];
    const bool ended = task.outcome != proto::OUTCOME_UNSPECIFIED;
    json.push_back(
        {task.issued, ended ? Json(task.computed) : Json(nullptr),
         ended ? absl::AsciiStrToLower(proto::Outcome_Name(task.outcome))
               : ""});
  }
  return json;
}

}  // namespace

TaskHistory::TaskHistory(std::string run_dir) : run_dir_(std::move(run_dir)) {
  StartAgain();
}

void TaskHistory::Follow(int64_t most_bytes) {
  if (run_dir_.empty()) return;
  problem_ = List();
  if (problem_.ok()) problem_ = ReadOn(most_bytes);
}

absl::Status TaskHistory::List() {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<LogFile> listed,
                          AllCommitLogFiles(run_dir_));
  std::vector<File> files;
  for (const LogFile& one : listed) {
    const size_t at = files.size();
    if (at < files_.size() && files_[at].path == one.path) {
      files.push_back(files_[at]);
      continue;
    }
    SLUICE_ASSIGN_OR_RETURN(const auto reader, CommitLogReader::Open(one.path));
    // Whoever took the generation may still begin it.
    if (!reader->header().has_value()) continue;
    files.push_back({one.path, *reader->header()});
  }
  // A generation's first file is the only one with version 0.
  std::vector<proto::LogHeader> headers;
  for (const File& file : files) {
    if (file.header.after_version() == 0) headers.push_back(file.header);
  }
  const std::vector<std::optional<Version>> kept = KeptVersions(headers);
  size_t generations = 0;
  for (File& file : files) {
    if (file.header.after_version() == 0) ++generations;
    if (generations == 0) {
      return absl::DataLossError(
          absl::StrCat(file.path, ": the files before it are not there"));
    }
    file.kept = kept[generations - 1];
  }
  const bool as_before =
      files.size() >= files_.size() &&
      std::equal(files_.begin(), files_.end(), files.begin(),
                 [](const File& a, const File& b) {
                   return a.path == b.path && a.kept == b.kept;
                 });
  files_ = std::move(files);
  if (!as_before) StartAgain();
  return absl::OkStatus();
}

void TaskHistory::StartAgain() {
  file_ = 0;
  read_ = 0;
  time_ = WorkerTime(kRecentTasks);
}

absl::Status TaskHistory::ReadOn(int64_t most_bytes) {
  behind_bytes_ = 0;
  while (file_ < files_.size() && most_bytes > 0) {
    SLUICE_ASSIGN_OR_RETURN(const bool ended, Read(&most_bytes));
    // A file that has a successor is whole.
    if (!ended || file_ + 1 == files_.size()) break;
    ++file_;
    read_ = 0;
  }
  for (size_t i = file_; i < files_.size(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(const InputFile file,
                            InputFile::Open(files_[i].path));
    behind_bytes_ += file.size();
  }
  behind_bytes_ -= read_;
  return absl::OkStatus();
}

absl::StatusOr<bool> TaskHistory::Read(int64_t* most_bytes) {
  const File& file = files_[file_];
  SLUICE_ASSIGN_OR_RETURN(const auto reader,
                          read_ == 0
                              ? CommitLogReader::Open(file.path)
                              : CommitLogReader::OpenAt(file.path, read_));
  if (read_ == 0 && file.header.after_version() == 0) {
    time_.Begin(file.header, file.kept);
  }
  while (true) {
    *most_bytes -= reader->whole_bytes() - read_;
    read_ = reader->whole_bytes();
    if (*most_bytes <= 0) return false;
    SLUICE_ASSIGN_OR_RETURN(const auto record, reader->Next());
    if (!record.has_value()) return true;
    time_.Read(*record);
  }
}

nlohmann::ordered_json TaskHistory::Json() const {
  const std::map<int64_t, WorkerSeconds> seconds = time_.Seconds();
  const WorkerSeconds all = SumOf(seconds);
  const size_t most = std::clamp<size_t>(
      kRecentTasksOfAll / std::max<size_t>(seconds.size(), 1), 1,
      kRecentTasks + 1);
  nlohmann::ordered_json workers = nlohmann::ordered_json::array();
  for (const auto& [worker, time] : seconds) {
    const auto tasks = time_.recent().find(worker);
    workers.push_back({{"id", worker},
                       {"seconds", SecondsJson(time)},
                       {"tasks", tasks == time_.recent().end()
                                     ? nlohmann::ordered_json::array()
                                     : TasksJson(tasks->second, most)}});
  }
  nlohmann::ordered_json json = {{"behind_bytes", behind_bytes_},
                                 {"problem", nullptr},
                                 {"now", time_.now()},
                                 {"goodput", nullptr},
                                 {"seconds", SecondsJson(all)},
                                 {"worker", workers}};
  if (!problem_.ok()) json["problem"] = problem_.message();
  if (all.Total() > 0) json["goodput"] = all.applied / all.Total();
  return json;
}

}  // namespace sluice

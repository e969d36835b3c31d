#include "ps_server/coordinator/generations.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

constexpr char kName[] = "commit_log";

// 0 where it is no log's name.
int64_t GenerationOf(absl::string_view name) {
  if (name == kName) return 1;
  int64_t generation = 0;
  if (!absl::ConsumePrefix(&name, absl::StrCat(kName, "-")) ||
      !absl::SimpleAtoi(name, &generation) || generation < 2 ||
      absl::StrCat(generation) != name) {
    return 0;
  }
  return generation;
}

// Drops what follows the commit of `version`, but for digests that came late.
absl::Status CutAfter(Version version, const std::string& path,
                      CommitLog* log) {
  const auto commit =
      std::find_if(log->records.begin(), log->records.end(),
                   [&](const proto::LogRecord& record) {
                     return record.has_commit() &&
                            record.commit().version() == version.value();
                   });
  if (commit == log->records.end()) {
    return absl::DataLossError(
        absl::StrCat(path, ": lacks version ", version.value(),
                     ", from which a later generation went on"));
  }
  log->records.erase(std::remove_if(commit + 1, log->records.end(),
                                    [&](const proto::LogRecord& record) {
                                      return !record.has_digests() ||
                                             record.digests().version() >
                                                 version.value();
                                    }),
                     log->records.end());
  log->torn.reset();
  return absl::OkStatus();
}

absl::StatusOr<Generation> NewestThatBegan(
    const std::string& run_dir, const std::vector<Generation>& generations) {
  for (auto it = generations.rbegin(); it != generations.rend(); ++it) {
    SLUICE_ASSIGN_OR_RETURN(const auto log,
                            CommitLogReader::Open(CommitLogPath(run_dir, *it)));
    if (log->header().has_value()) return *it;
  }
  return absl::NotFoundError(absl::StrCat(
      run_dir,
      ": no generation has begun: each commit log is without a whole "
      "record"));
}

// Appends one log after the other.
class Joiner {
 public:
  explicit Joiner(CommitLog* to) : to_(*to) {}

  void Append(const CommitLog& log) {
    if (!to_.records.empty()) EndOpenTasks();
    to_.header = log.header;
    to_.torn = log.torn;
    const double begin = seconds_;
    const int64_t lives = most_lives_;
    for (proto::LogRecord record : log.records) {
      seconds_ = begin + record.seconds();
      record.set_seconds(seconds_);
      if (record.has_task()) Open(Renumber(lives, record.mutable_task()));
      if (record.has_end()) Close(Renumber(lives, record.mutable_end()));
      if (record.has_commit()) {
        for (auto& entry : *record.mutable_commit()->mutable_entry()) {
          Close(Renumber(lives, &entry));
        }
      }
      to_.records.push_back(std::move(record));
    }
  }

 private:
  using Key = std::tuple<int64_t, int64_t, int64_t>;

  template <typename Message>
  Key Renumber(int64_t lives, Message* message) {
    message->set_incarnation(message->incarnation() + lives);
    most_lives_ = std::max(most_lives_, message->incarnation());
    return {message->worker(), message->incarnation(), message->sequence()};
  }
  void Open(const Key& key) { open_.insert(key); }
  void Close(const Key& key) { open_.erase(key); }

  void EndOpenTasks() {
    for (const auto& [worker, incarnation, sequence] : open_) {
      proto::LogRecord record;
      record.set_seconds(seconds_);
      record.mutable_end()->set_worker(worker);
      record.mutable_end()->set_incarnation(incarnation);
      record.mutable_end()->set_sequence(sequence);
      // sluice.proto.Outcome's LOST.
      record.mutable_end()->set_outcome(5);
      record.mutable_end()->set_reason("its generation ended");
      to_.records.push_back(std::move(record));
    }
    open_.clear();
  }

  CommitLog& to_;
  double seconds_ = 0;
  int64_t most_lives_ = 0;
  std::set<Key> open_;
};

}  // namespace

std::string CommitLogPath(const std::string& run_dir, Generation generation) {
  const std::string path = absl::StrCat(run_dir, "/", kName);
  return generation == Generation(1)
             ? path
             : absl::StrCat(path, "-", generation.value());
}

std::vector<Generation> ListGenerations(const std::string& run_dir) {
  std::vector<Generation> generations;
  std::error_code error;
  for (std::filesystem::directory_iterator it(run_dir, error), end;
       !error && it != end; it.increment(error)) {
    const int64_t generation = GenerationOf(it->path().filename().string());
    if (generation > 0) generations.push_back(Generation(generation));
  }
  std::sort(generations.begin(), generations.end());
  return generations;
}

absl::StatusOr<Lineage> ReadLineage(const std::string& run_dir) {
  const std::vector<Generation> generations = ListGenerations(run_dir);
  if (generations.empty()) {
    return absl::NotFoundError(absl::StrCat(
        CommitLogPath(run_dir, Generation(1)), ": cannot be read"));
  }
  Lineage lineage;
  SLUICE_ASSIGN_OR_RETURN(const Generation newest,
                          NewestThatBegan(run_dir, generations));
  std::string path = CommitLogPath(run_dir, newest);
  SLUICE_ASSIGN_OR_RETURN(CommitLog log, ReadCommitLog(path));
  lineage.logs.push_back(std::move(log));
  while (lineage.logs.back().header.restored_version() > 0) {
    const proto::LogHeader& later = lineage.logs.back().header;
    if (later.parent_generation() < 1 ||
        later.parent_generation() >= later.generation()) {
      return absl::DataLossError(absl::StrCat(
          path, ": generation ", later.generation(), " goes on from ",
          later.parent_generation(), ", expected an earlier one"));
    }
    path = CommitLogPath(run_dir, Generation(later.parent_generation()));
    SLUICE_ASSIGN_OR_RETURN(CommitLog earlier, ReadCommitLog(path));
    SLUICE_RETURN_IF_ERROR(
        CutAfter(Version(later.restored_version()), path, &earlier));
    lineage.logs.push_back(std::move(earlier));
  }
  std::reverse(lineage.logs.begin(), lineage.logs.end());
  return lineage;
}

CommitLog JoinLogs(const Lineage& lineage) {
  CommitLog joined;
  Joiner joiner(&joined);
  for (const CommitLog& log : lineage.logs) joiner.Append(log);
  return joined;
}

PastGenerations SumUp(const std::string& run_dir,
                      std::vector<absl::Status>* problems) {
  PastGenerations past;
  for (Generation generation : ListGenerations(run_dir)) {
    const auto log = ReadCommitLog(CommitLogPath(run_dir, generation));
    if (!log.ok()) {
      problems->push_back(log.status());
      continue;
    }
    const Version restored(log->header.restored_version());
    past.updates_lost +=
        std::max<int64_t>(0, past.newest.value() - restored.value());
    past.newest = restored;
    for (const proto::LogRecord& record : log->records) {
      if (record.has_task()) ++past.tasks;
      if (record.has_commit()) past.newest = Version(record.commit().version());
    }
  }
  return past;
}

}  // namespace sluice

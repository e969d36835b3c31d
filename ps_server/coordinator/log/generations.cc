// The generations that a run's weights come from are its lineage; the others
// were rolled back. A run whose files are
//
//   commit_log         generation 1, from version 0
//   commit_log.250     the same, from the checkpoint at version 250 on
//   commit_log-2       from 250 of generation 1; decided 251 to 260
//   commit_log-3       from 250 of generation 1: 2 had stored nothing
//
// has the lineage 1, up to the commit of version 250, and 3. Generation 2 is
// not in it: its ten updates are lost.
//
// How many were lost, and how many tasks were issued, is carried from header to
// header (`past`), so that a lead that recovers reads commit_log-3 only,
// however many generations there were.
#include "ps_server/coordinator/log/generations.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

constexpr char kName[] = "commit_log";

// Which file of a log a name is; `generation` 0: it is none.
struct FileName {
  int64_t generation = 0;
  int64_t after_version = 0;  // 0: the first.
};

// A number as it is written in a name.
bool ConsumeNumber(absl::string_view text, int64_t least, int64_t* number) {
  return absl::SimpleAtoi(text, number) && *number >= least &&
         absl::StrCat(*number) == text;
}

FileName ParseName(absl::string_view name) {
  FileName parsed;
  const size_t dot = name.find('.');
  if (dot != absl::string_view::npos) {
    if (!ConsumeNumber(name.substr(dot + 1), 1, &parsed.after_version)) {
      return {};
    }
    name = name.substr(0, dot);
  }
  if (name == kName) {
    parsed.generation = 1;
  } else if (!absl::ConsumePrefix(&name, absl::StrCat(kName, "-")) ||
             !ConsumeNumber(name, 2, &parsed.generation)) {
    return {};
  }
  return parsed;
}

// By generation, then by version: the files of all logs.
using LogFiles = std::map<Generation, std::map<int64_t, std::string>>;
absl::StatusOr<LogFiles> ListFiles(const std::string& run_dir,
                                   FileOperations* files) {
  LogFiles all;
  const auto names = files->List(run_dir);
  if (absl::IsNotFound(names.status())) return all;
  SLUICE_RETURN_IF_ERROR(names.status());
  for (const std::string& name : *names) {
    const FileName parsed = ParseName(name);
    if (parsed.generation == 0) continue;
    all[Generation(parsed.generation)][parsed.after_version] =
        absl::StrCat(run_dir, "/", name);
  }
  return all;
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

// That the next file of a log, `path`, goes on where `log` has come to: behind
// version `newest`.
absl::Status CheckFollows(const std::string& path,
                          const proto::LogHeader& header, Generation generation,
                          bool begun, Version newest, const CommitLog& log) {
  if (header.generation() != generation.value()) {
    return absl::DataLossError(absl::StrCat(path, ": is of generation ",
                                            header.generation(), ", expected ",
                                            generation.value()));
  }
  if (begun && log.torn.has_value()) {
    return absl::DataLossError(
        absl::StrCat(log.torn->ToString(), "; ", path, " goes on behind it"));
  }
  if (!begun && header.after_version() > 0) {
    return absl::DataLossError(
        absl::StrCat(path, ": goes on behind version ", header.after_version(),
                     ", and the files before it are not there"));
  }
  if (begun && header.has_past() &&
      header.past().newest_version() != newest.value()) {
    return absl::DataLossError(absl::StrCat(
        path, ": goes on behind version ", header.past().newest_version(),
        ", and the files before it end with version ", newest.value(),
        ": one is damaged or not there"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Generation> NewestThatBegan(
    const std::string& run_dir, const std::vector<Generation>& generations) {
  for (auto it = generations.rbegin(); it != generations.rend(); ++it) {
    SLUICE_ASSIGN_OR_RETURN(const auto header, ReadHeader(run_dir, *it));
    if (header.has_value()) return *it;
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

// What one file of a log holds.
struct Tally {
  proto::LogHeader header;
  int64_t tasks = 0;
  Version newest;  // That was decided; 0: none.
  proto::InstructionSet instruction_set = proto::INSTRUCTION_SET_UNSPECIFIED;
  std::optional<proto::LogInputs> inputs;
  int64_t records = 0;

  // Whether its generation was taken and has come to nothing so far. The tasks
  // and versions that its header names were counted then: a lead that lived may
  // have written more before it found itself replaced.
  bool only_taken() const {
    return records == 0 && header.after_version() == 0;
  }
  // `past` is what was read of the files before it; if `counted`, the numbers
  // in it are complete, and those in the header are not needed.
  void AddTo(PastGenerations* past, bool counted) const {
    if (!header.run_id().empty()) past->run_id = header.run_id();
    past->had_checkpoint |= header.restored_version() > 0;
    if (header.has_past() && !counted) {
      past->tasks = header.past().tasks();
      past->updates_lost = header.past().updates_lost();
      past->newest = Version(header.past().newest_version());
    } else if (!header.has_past()) {
      const Version restored(header.restored_version());
      past->updates_lost +=
          std::max<int64_t>(0, past->newest.value() - restored.value());
      past->newest = restored;
    }
    const proto::InstructionSet agreed =
        std::max(header.past().instruction_set(), instruction_set);
    if (agreed != 0) past->instruction_set = agreed;
    if (inputs.has_value() || header.past().has_inputs()) {
      const proto::LogInputs found = inputs.value_or(header.past().inputs());
      past->inputs = {found.inputs().begin(), found.inputs().end()};
    }
    past->tasks += tasks;
    if (newest > Version(0)) past->newest = newest;
  }
};

// Nullopt: the file has not begun.
absl::StatusOr<std::optional<Tally>> Count(const std::string& path,
                                           FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(const auto reader,
                          CommitLogReader::Open(path, files));
  if (!reader->header().has_value()) return std::nullopt;
  Tally tally;
  tally.header = *reader->header();
  while (true) {
    SLUICE_ASSIGN_OR_RETURN(const auto record, reader->Next());
    if (!record.has_value()) return tally;
    ++tally.records;
    if (record->has_task()) ++tally.tasks;
    if (record->has_commit()) {
      tally.newest = Version(record->commit().version());
    }
    if (record->has_instruction_set()) {
      tally.instruction_set = record->instruction_set();
    }
    if (record->has_inputs()) tally.inputs = record->inputs();
  }
}

}  // namespace

std::string CommitLogPath(const std::string& run_dir, Generation generation) {
  const std::string path = absl::StrCat(run_dir, "/", kName);
  return generation == Generation(1)
             ? path
             : absl::StrCat(path, "-", generation.value());
}

absl::StatusOr<std::vector<Generation>> ListGenerations(
    const std::string& run_dir, FileOperations* files) {
  std::vector<Generation> generations;
  SLUICE_ASSIGN_OR_RETURN(const LogFiles all, ListFiles(run_dir, files));
  for (const auto& [generation, paths] : all) generations.push_back(generation);
  return generations;
}

absl::StatusOr<std::vector<std::string>> CommitLogFiles(
    const std::string& run_dir, Generation generation, FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(LogFiles all, ListFiles(run_dir, files));
  std::vector<std::string> paths;
  for (const auto& [version, path] : all[generation]) paths.push_back(path);
  return paths;
}

absl::StatusOr<std::vector<LogFile>> AllCommitLogFiles(
    const std::string& run_dir, FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(const LogFiles all, ListFiles(run_dir, files));
  std::vector<LogFile> listed;
  for (const auto& [generation, paths] : all) {
    for (const auto& [version, path] : paths) {
      listed.push_back({generation, path});
    }
  }
  return listed;
}

absl::StatusOr<CommitLog> ReadGeneration(const std::string& run_dir,
                                         Generation generation) {
  std::vector<proto::LogRecord> records;
  SLUICE_ASSIGN_OR_RETURN(
      CommitLog log,
      ReadGeneration(run_dir, generation, [&](proto::LogRecord record) {
        records.push_back(std::move(record));
      }));
  log.records = std::move(records);
  return log;
}

absl::StatusOr<CommitLog> ReadGeneration(
    const std::string& run_dir, Generation generation,
    absl::FunctionRef<void(proto::LogRecord record)> read) {
  const std::string first = CommitLogPath(run_dir, generation);
  CommitLog log;
  bool begun = false;
  Version newest;
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                          CommitLogFiles(run_dir, generation));
  for (const std::string& path : paths) {
    SLUICE_ASSIGN_OR_RETURN(const auto reader, CommitLogReader::Open(path));
    // Whoever wanted to begin it had no room, or died.
    if (!reader->header().has_value()) continue;
    SLUICE_RETURN_IF_ERROR(
        CheckFollows(path, *reader->header(), generation, begun, newest, log));
    if (!begun) {
      log.header = *reader->header();
      newest = Version(log.header.restored_version());
    }
    begun = true;
    while (true) {
      SLUICE_ASSIGN_OR_RETURN(auto record, reader->Next());
      if (!record.has_value()) break;
      if (record->has_commit()) newest = Version(record->commit().version());
      read(*std::move(record));
    }
    log.torn = reader->torn();
  }
  if (begun) return log;
  return absl::DataLossError(
      absl::StrCat(first, ": does not begin with a header"));
}

absl::StatusOr<AllGenerations> ReadAllGenerations(const std::string& run_dir) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Generation> generations,
                          ListGenerations(run_dir));
  if (generations.empty()) {
    return absl::NotFoundError(absl::StrCat(
        CommitLogPath(run_dir, Generation(1)), ": cannot be read"));
  }
  AllGenerations all;
  for (const Generation generation : generations) {
    SLUICE_ASSIGN_OR_RETURN(const auto header, ReadHeader(run_dir, generation));
    if (!header.has_value()) {
      all.never_began.push_back(generation);
      continue;
    }
    SLUICE_ASSIGN_OR_RETURN(CommitLog log, ReadGeneration(run_dir, generation));
    all.logs.push_back(std::move(log));
  }
  return all;
}

absl::StatusOr<Lineage> ReadLineage(const std::string& run_dir) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<Generation> generations,
                          ListGenerations(run_dir));
  if (generations.empty()) {
    return absl::NotFoundError(absl::StrCat(
        CommitLogPath(run_dir, Generation(1)), ": cannot be read"));
  }
  Lineage lineage;
  SLUICE_ASSIGN_OR_RETURN(const Generation newest,
                          NewestThatBegan(run_dir, generations));
  std::string path = CommitLogPath(run_dir, newest);
  SLUICE_ASSIGN_OR_RETURN(CommitLog log, ReadGeneration(run_dir, newest));
  lineage.logs.push_back(std::move(log));
  while (lineage.logs.back().header.restored_version() > 0) {
    const proto::LogHeader& later = lineage.logs.back().header;
    if (later.parent_generation() < 1 ||
        later.parent_generation() >= later.generation()) {
      return absl::DataLossError(absl::StrCat(
          path, ": generation ", later.generation(), " goes on from ",
          later.parent_generation(), ", expected an earlier one"));
    }
    const Generation parent(later.parent_generation());
    path = CommitLogPath(run_dir, parent);
    SLUICE_ASSIGN_OR_RETURN(CommitLog earlier, ReadGeneration(run_dir, parent));
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

absl::StatusOr<std::optional<proto::LogHeader>> ReadHeader(
    const std::string& run_dir, Generation generation, FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> paths,
                          CommitLogFiles(run_dir, generation, files));
  for (const std::string& path : paths) {
    SLUICE_ASSIGN_OR_RETURN(const auto reader,
                            CommitLogReader::Open(path, files));
    if (reader->header().has_value()) return reader->header();
  }
  return std::nullopt;
}

absl::StatusOr<PastGenerations> SumUp(const std::string& run_dir,
                                      std::vector<absl::Status>* problems,
                                      FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(const LogFiles all, ListFiles(run_dir, files));
  std::vector<Tally> newest_first;
  bool complete = false;
  for (auto log = all.rbegin(); log != all.rend() && !complete; ++log) {
    for (auto file = log->second.rbegin();
         file != log->second.rend() && !complete; ++file) {
      const absl::StatusOr<std::optional<Tally>> tally =
          Count(file->second, files);
      if (absl::IsUnavailable(tally.status())) return tally.status();
      if (absl::IsNotFound(tally.status())) {
        return absl::UnavailableError(absl::StrCat(
            file->second,
            ": cannot be read: its folder has listed it, opening it says that "
            "there is no such file"));
      }
      if (!tally.ok()) {
        // Then there is what a header behind it says.
        complete =
            !newest_first.empty() && newest_first.back().header.has_past();
        if (!complete) problems->push_back(tally.status());
      } else if (tally->has_value()) {
        newest_first.push_back(**tally);
        complete = (*tally)->header.has_past() && !(*tally)->only_taken();
      }
    }
  }
  PastGenerations past;
  for (auto it = newest_first.rbegin(); it != newest_first.rend(); ++it) {
    it->AddTo(&past, it != newest_first.rbegin() && it->only_taken());
  }
  return past;
}

bool LogIsHeld(const std::string& run_dir, Generation generation,
               FileOperations* files) {
  // Between two looks it may have gone on in its next file.
  for (int look = 0; look < 2; ++look) {
    const absl::StatusOr<std::vector<std::string>> paths =
        CommitLogFiles(run_dir, generation, files);
    if (!paths.ok()) return false;
    for (const std::string& path : *paths) {
      if (files->IsHeld(path)) return true;
    }
  }
  return false;
}

}  // namespace sluice

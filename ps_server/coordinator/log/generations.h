#ifndef SLUICE_PS_SERVER_COORDINATOR_LOG_GENERATIONS_H_
#define SLUICE_PS_SERVER_COORDINATOR_LOG_GENERATIONS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/file_operations.h"
#include "common/ids.h"
#include "ps_server/coordinator/log/commit_log_file.h"

// The generations of a run: each has a commit log of its own in the run folder,
// and is taken by creating its first file. A generation above 1 goes on from a
// version of an earlier one; what that one decided later is lost.
namespace sluice {

// The first file of its log: "RUN/commit_log" of generation 1,
// "RUN/commit_log-3" of generation 3.
std::string CommitLogPath(const std::string& run_dir, Generation generation);

// In the run folder while the processes of a run that was stopped hear of its
// end: no generation follows before they have (FindRecovery).
inline constexpr char kFarewell[] = "farewell";

// Those that have been taken, ascending; none where there is no such folder.
// kUnavailable: it cannot be listed.
absl::StatusOr<std::vector<Generation>> ListGenerations(
    const std::string& run_dir, FileOperations* files = FileOperations::Real());

// The files of its log that are there, in order: the first one, then those that
// begin where a checkpoint was decided, "RUN/commit_log-3.250". kUnavailable:
// the folder cannot be listed.
absl::StatusOr<std::vector<std::string>> CommitLogFiles(
    const std::string& run_dir, Generation generation,
    FileOperations* files = FileOperations::Real());

// The files of all logs that are there, in order. Errors as CommitLogFiles's.
struct LogFile {
  Generation generation;
  std::string path;
};
absl::StatusOr<std::vector<LogFile>> AllCommitLogFiles(
    const std::string& run_dir, FileOperations* files = FileOperations::Real());

// What its log opens with; nullopt: whoever took the generation has not begun
// it. Errors as CommitLogReader's.
absl::StatusOr<std::optional<proto::LogHeader>> ReadHeader(
    const std::string& run_dir, Generation generation,
    FileOperations* files = FileOperations::Real());

// Reads a generation's whole log, of all its files. kNotFound: it has none.
// kDataLoss: one is damaged, lacks what another file goes on from, or is of
// another generation; or none has begun.
absl::StatusOr<CommitLog> ReadGeneration(const std::string& run_dir,
                                         Generation generation);
// The same, but one record after the other goes to `read`, and none is held.
// Header and torn tail are returned.
absl::StatusOr<CommitLog> ReadGeneration(
    const std::string& run_dir, Generation generation,
    absl::FunctionRef<void(proto::LogRecord record)> read);

// The logs of all generations, also of those that were rolled back.
struct AllGenerations {
  std::vector<CommitLog> logs;  // Of those that began, ascending.
  // Generations whose log has no header: they were taken, and their coordinator
  // died before it began.
  std::vector<Generation> never_began;
};
// kNotFound: no generation has been taken. Else errors as ReadGeneration's.
absl::StatusOr<AllGenerations> ReadAllGenerations(const std::string& run_dir);

// The newest generation that began and those it goes on from, oldest first.
// Each log but the last ends with the commit of the version that the next one
// restored: what came later is not in it.
struct Lineage {
  std::vector<CommitLog> logs;  // At least one.
};
// kNotFound: no generation has begun. kDataLoss: a log is damaged, or lacks the
// version that was restored; kUnavailable: one cannot be read. Names the file.
absl::StatusOr<Lineage> ReadLineage(const std::string& run_dir);

// The same as one log, as of a run that was never stopped: its header is the
// newest, its seconds go on from log to log, a worker's incarnations of a later
// generation are above those of the earlier ones, and a task that was open when
// a generation ended ends as lost.
CommitLog JoinLogs(const Lineage& lineage);

// What the logs of all generations come to.
struct PastGenerations {
  int64_t tasks = 0;  // Issued.
  // Versions decided and rolled back when the next generation began.
  int64_t updates_lost = 0;
  // The newest that the last generation decided.
  Version newest;
  // Of the run, as the newest log that has one says; empty: none does.
  std::string run_id;
  // What it computes with, where its workers have agreed on that.
  proto::InstructionSet instruction_set = proto::INSTRUCTION_SET_UNSPECIFIED;
  // What it began with (LogInputs), as the newest log that says so.
  std::map<std::string, std::string> inputs;
  // Whether the last one went on from a checkpoint.
  bool had_checkpoint = false;
};
// Reads the newest file that has more than its header, which says what came
// before it, and holds one record at a time: neither time nor memory depend on
// how long the run has been going on. A file that is damaged has nothing in it,
// and is named in `problems`; then the one before it counts. kUnavailable: one
// cannot be read, or is there no more.
absl::StatusOr<PastGenerations> SumUp(
    const std::string& run_dir, std::vector<absl::Status>* problems,
    FileOperations* files = FileOperations::Real());

// Whether the log of a generation is still open where it is written, as far as
// the file system can tell: its lead lives.
bool LogIsHeld(const std::string& run_dir, Generation generation,
               FileOperations* files = FileOperations::Real());

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_LOG_GENERATIONS_H_

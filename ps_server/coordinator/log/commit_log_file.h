#ifndef SLUICE_PS_SERVER_COORDINATOR_LOG_COMMIT_LOG_FILE_H_
#define SLUICE_PS_SERVER_COORDINATOR_LOG_COMMIT_LOG_FILE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/files/file_operations.h"
#include "common/files/input_file.h"
#include "common/ids.h"
#include "proto/commit_log.pb.h"

namespace sluice {

// Removes the log at `path`, whose generation comes to nothing because of
// `failed`, and returns that. LeavesLog: the log could not be removed either,
// so no further attempt can take that generation.
absl::Status WithoutLog(absl::Status failed, const std::string& path,
                        FileOperations* disk);
bool LeavesLog(const absl::Status& failed);

// Appends to a generation's commit log (format: proto/commit_log.proto), one
// file after the other: PATH, then PATH.V for each version V at which it is
// cut.
//
// After an error (kUnavailable, names the file) the file's end is unknown:
// every later call returns that error. Where there is no room on the disk
// (kResourceExhausted) the file is as it was, and the call may be repeated.
//
// Thread-compatible, but that Sync and path may run beside one other call.
class CommitLogWriter {
 public:
  // Creates `path`, which must not exist, and writes the header. The file that
  // is appended to is held (FileOperations::Hold).
  // kAlreadyExists, kResourceExhausted, kUnavailable: name the file and the
  // system's reason. `disk` outlives this.
  static absl::StatusOr<std::unique_ptr<CommitLogWriter>> Create(
      const std::string& path, const proto::LogHeader& header,
      FileOperations* disk);
  // The same, of the machine's own files.
  static absl::StatusOr<std::unique_ptr<CommitLogWriter>> Create(
      const std::string& path, const proto::LogHeader& header);
  ~CommitLogWriter();

  // Hands all records to the system in one write: they survive the death of
  // this process, not of the machine (for that, Sync).
  absl::Status Append(const std::vector<proto::LogRecord>& records);
  // Goes on in a file of its own, PATH.`version`, whose header says what came
  // before; what there is so far is on the disk then. Once for each version.
  // kResourceExhausted, kUnavailable: the next file cannot be made; unless
  // Append fails from here on, the log goes on in the file it is in.
  absl::Status Cut(Version version);
  // Blocks until everything appended is on the disk.
  absl::Status Sync();

  // Of the file that is appended to.
  std::string path() const {
    absl::MutexLock lock(&mu_);
    return file_->path;
  }

 private:
  struct File {
    File(std::string path, int file, FileOperations* disk)
        : path(std::move(path)), file(file), disk(*disk) {}
    // Whatever matters has been synced.
    ~File() { disk.Close(file, path).IgnoreError(); }

    const std::string path;
    const int file;
    FileOperations& disk;
  };

  CommitLogWriter(std::shared_ptr<File> file, const proto::LogHeader& header);
  // Creates a file and writes its header; else there is none, where it can be
  // helped.
  static absl::StatusOr<std::shared_ptr<File>> Begin(
      const std::string& path, const proto::LogHeader& header,
      FileOperations* disk, int64_t* bytes);
  void Count(const proto::LogRecord& record);
  // Cuts off what a batch has left that did not fit.
  absl::Status Undo();
  // Remembers the failure.
  absl::Status Fail(const absl::Status& failure);
  absl::Status status() const;

  // Constant after construction.
  const std::string first_path_;

  // What a header here and now would say. `past` counts what is appended.
  proto::LogHeader header_;
  int64_t bytes_ = 0;  // Appended to the file.
  bool half_ = false;  // Part of a batch may lie behind them.

  mutable absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  // Changed under the lock, by Cut; read without it by whoever appends.
  std::shared_ptr<File> file_;
};

// What a log's file ends with that is no whole record: a crash while writing,
// or a loss of power, after which what was not yet on the disk is cut off,
// zeros or anything. What had been written there is missing.
struct TornTail {
  std::string path;
  int64_t offset = 0;  // In bytes, from the file's beginning.
  int64_t bytes = 0;   // From there to its end.

  // For a person: how much is missing, and where.
  std::string ToString() const;
};

// Reads one file of a log. Holds one record at a time, however long the log is.
// Not thread-safe.
class CommitLogReader {
 public:
  // kNotFound; kUnavailable: names the file and the system's reason; and as
  // Next.
  static absl::StatusOr<std::unique_ptr<CommitLogReader>> Open(
      const std::string& path, FileOperations* files = FileOperations::Real());
  // Goes on where another reader of the file had come to, at its
  // whole_bytes() above 0; has no header.
  static absl::StatusOr<std::unique_ptr<CommitLogReader>> OpenAt(
      const std::string& path, int64_t whole_bytes,
      FileOperations* files = FileOperations::Real());

  // What the file opens with; empty where nothing in the file is a whole
  // record: it was created, and whoever did so died before it began.
  const std::optional<proto::LogHeader>& header() const { return header_; }

  // The next record behind the header, with every shard's base, however it was
  // written; empty at the end, which may be torn.
  // kDataLoss: what is here is no whole record, but one lies behind it; or the
  // log does not begin with a header. Names file and position. kUnavailable as
  // Open's.
  absl::StatusOr<std::optional<proto::LogRecord>> Next();

  // From the file's beginning to the end of the last whole record that was
  // read.
  int64_t whole_bytes() const { return whole_bytes_; }
  // Once Next has come to the end.
  const std::optional<TornTail>& torn() const { return torn_; }

 private:
  explicit CommitLogReader(InputFile file) : file_(std::move(file)) {}

  // Makes `bytes` available from `position_` on, or what there is.
  absl::Status Fill(size_t bytes);
  absl::string_view rest() const;
  // A whole record at `position_` of at most `most` bytes; 0: none, else its
  // size in the file.
  absl::StatusOr<size_t> WholeRecord(size_t most, proto::LogRecord* record);
  // What is at `position_` is no whole record.
  absl::Status EndOrDamage();

  // Constant after construction.
  const InputFile file_;

  int64_t read_ = 0;  // Bytes of the file.
  std::string buffer_;
  size_t begin_ = 0;      // Of what is left in `buffer_`.
  int64_t position_ = 0;  // In the file, of the same.
  int64_t whole_bytes_ = 0;
  std::optional<proto::LogHeader> header_;
  std::optional<TornTail> torn_;
};

struct CommitLog {
  proto::LogHeader header;
  std::vector<proto::LogRecord> records;  // Without the header.
  std::optional<TornTail> torn;
};

// Reads one file. Errors as CommitLogReader's, and kDataLoss where it has no
// header.
absl::StatusOr<CommitLog> ReadCommitLog(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_LOG_COMMIT_LOG_FILE_H_

#ifndef SLUICE_PS_SERVER_COORDINATOR_COMMIT_LOG_FILE_H_
#define SLUICE_PS_SERVER_COORDINATOR_COMMIT_LOG_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "proto/commit_log.pb.h"

namespace sluice {

// Appends to a commit log (format: proto/commit_log.proto).
//
// After an error (kUnavailable, names the file) the file's end is unknown:
// every later call returns that error.
//
// Thread-compatible, but that Sync may run beside one other call.
class CommitLogWriter {
 public:
  // Creates `path`, which must not exist, and writes the header.
  // kAlreadyExists, kUnavailable: name the file and the system's reason.
  static absl::StatusOr<std::unique_ptr<CommitLogWriter>> Create(
      const std::string& path, const proto::LogHeader& header);
  ~CommitLogWriter();

  // Hands all records to the system in one write: they survive the death of
  // this process, not of the machine (for that, Sync). `*ends`, unless null,
  // becomes the file's length with each of them.
  absl::Status Append(const std::vector<proto::LogRecord>& records,
                      std::vector<int64_t>* ends = nullptr);
  // Blocks until everything appended is on the disk.
  absl::Status Sync();

 private:
  CommitLogWriter(std::string path, int file);
  // Remembers the failure of `operation`.
  absl::Status Fail(const std::string& operation);
  absl::Status status() const;

  // Constant after construction.
  const std::string path_;
  const int file_;

  int64_t bytes_ = 0;  // Appended.

  mutable absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

struct CommitLog {
  proto::LogHeader header;
  std::vector<proto::LogRecord> records;  // Without the header.
  // The last record was torn (a crash while writing) and has been left out.
  bool torn = false;
};

// Reads a whole log. kNotFound; kDataLoss: a record other than the last is
// damaged, or the first is not a header: names file and position.
absl::StatusOr<CommitLog> ReadCommitLog(const std::string& path);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_COMMIT_LOG_FILE_H_

#ifndef SLUICE_PS_SERVER_LIVE_TASK_HISTORY_H_
#define SLUICE_PS_SERVER_LIVE_TASK_HISTORY_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "nlohmann/json.hpp"
#include "proto/commit_log.pb.h"
#include "ps_server/coordinator/log/worker_time.h"

namespace sluice {

// What the workers of a run do and did: its commit logs, read as they grow.
//
// When a generation begins, all logs are read once more, because what it did
// not go on from is lost. Holds the last tasks of each worker only.
//
// Thread-compatible.
class TaskHistory {
 public:
  // `run_dir` need not exist yet. Empty: there is nothing to read.
  explicit TaskHistory(std::string run_dir);

  // Reads what has been appended since, `most_bytes` at most but for a record:
  // 4 MiB are 40,000 tasks.
  void Follow(int64_t most_bytes = 4 << 20);

  // An object:
  //   behind_bytes  of the logs, not read yet
  //   problem       why they cannot be read further; null: they can
  //   now           the time of the last record
  //   goodput       0 to 1; null where no worker has had a task
  //   seconds       of all workers, by cause
  //   worker        an array of objects: "id", "seconds" by cause, and "tasks",
  //                 the last ones: arrays of issued, computed (null: not yet)
  //                 and outcome ("": none yet)
  // Times are in seconds of the generation.
  nlohmann::ordered_json Json() const;

 private:
  struct File {
    std::string path;
    proto::LogHeader header;
    std::optional<Version> kept = {};  // Of its generation (KeptVersions).
  };

  // Finds out which logs there are.
  absl::Status List();
  // Reads the present file; true: to its end.
  absl::StatusOr<bool> Read(int64_t* most_bytes);
  absl::Status ReadOn(int64_t most_bytes);
  void StartAgain();

  // Constant after construction.
  const std::string run_dir_;

  std::vector<File> files_;  // Of all generations that have begun, in order.
  size_t file_ = 0;          // That is read.
  int64_t read_ = 0;         // Bytes of it.
  WorkerTime time_;
  int64_t behind_bytes_ = 0;
  absl::Status problem_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_LIVE_TASK_HISTORY_H_

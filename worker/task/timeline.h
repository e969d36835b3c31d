#ifndef SLUICE_WORKER_TASK_TIMELINE_H_
#define SLUICE_WORKER_TASK_TIMELINE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/coordinator.pb.h"
#include "worker/task/task_progress.h"

namespace sluice {

// Writes what a worker did, task by task, in Chrome's trace event format
// ("Trace Event Format", JSON array, which may lack its end), as
// ui.perfetto.dev and chrome://tracing show it: one line for each task, for
// each of its stages and for what travelled meanwhile, on tracks of its own,
// with times of the machine's clock. All workers of a machine, and their
// members, may write to one file.
//
// Not thread-safe: call from the compute thread.
class Timeline {
 public:
  // Whose tracks: `number` is no other process's of the file, and orders them.
  struct Process {
    int64_t number = 0;
    std::string name;  // "worker 3"
  };
  // Begins the file at `path`, or adds to the one that is there. kNotFound,
  // kPermissionDenied and so on, with the path, where it cannot be written to.
  static absl::StatusOr<std::unique_ptr<Timeline>> Open(const std::string& path,
                                                        const Process& process);
  ~Timeline();
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  // A task has ended so: "delivered", "rejected" or "cancelled". A write that
  // fails is logged once and ends the recording.
  void Add(const proto::Task& task, const TaskProgress& progress,
           absl::string_view outcome);

 private:
  Timeline(std::string path, int file, int64_t number);

  void Write(const std::string& lines);

  // Constant after construction.
  const std::string path_;
  const int64_t number_;  // The process's.

  int file_;  // -1: nothing is recorded any more.
};

}  // namespace sluice

#endif  // SLUICE_WORKER_TASK_TIMELINE_H_

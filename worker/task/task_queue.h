#ifndef SLUICE_WORKER_TASK_TASK_QUEUE_H_
#define SLUICE_WORKER_TASK_TASK_QUEUE_H_

#include <cstdint>
#include <deque>
#include <optional>

#include "common/ids.h"
#include "proto/coordinator.pb.h"

namespace sluice {

// What this worker has been told to do and has not yet done: at most one task
// running, later ones waiting, in order. Pure: no thread, no lock, no clock.
//
// Not thread-safe: call under the owner's lock.
class TaskQueue {
 public:
  // A task came.
  void Add(proto::Task task);
  // A task was cancelled; unknown ones are ignored. True when it is the one
  // that runs, which must then stop.
  bool Cancel(const GradientKey& key);
  // This life is over, and with it every task. True when one runs, which must
  // then stop.
  bool EndLife();

  // The next task, which runs from now on; nullopt when none waits.
  // REQUIRES: none runs.
  std::optional<proto::Task> Take();
  // The running task has ended. REQUIRES: one runs.
  void Done() { running_.reset(); }

  // No task waits.
  bool empty() const { return waiting_.empty(); }
  // Waiting tasks that were cancelled before they began.
  int64_t cancelled_unstarted() const { return cancelled_unstarted_; }

 private:
  std::optional<GradientKey> running_;
  std::deque<proto::Task> waiting_;
  int64_t cancelled_unstarted_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_TASK_TASK_QUEUE_H_

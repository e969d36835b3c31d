#ifndef SLUICE_WORKER_TASK_TASK_INBOX_H_
#define SLUICE_WORKER_TASK_TASK_INBOX_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/telemetry/shared_counters.h"
#include "proto/coordinator.pb.h"
#include "worker/task/cancel_token.h"
#include "worker/task/task_queue.h"
#include "worker/worker_counters.h"

namespace sluice {

// Between the session's reader thread, which learns what to do, and the thread
// that computes. Thread-safe.
class TaskInbox {
 public:
  // `counters` must outlive the inbox.
  explicit TaskInbox(SharedCounters<WorkerCounters>* counters)
      : counters_(*counters) {}

  // `wake` is called after the token was set, so that a call that waits looks
  // at it. Must stay callable until the session has ended. Set it before the
  // first Next.
  void set_wake(std::function<void()> wake);

  // ---- Called by the reader thread; none of them blocks. ----

  // A numbered message: Task, Cancel, Verdict or Finish; others are ignored.
  void Receive(const proto::FromCoordinator& message);
  // No more tasks: the running one is cancelled, Next returns nothing. From any
  // thread.
  void Close(const std::string& reason);

  // ---- Called by the compute thread. ----

  // Blocks until there is a task, at most `timeout`. The task runs, under a
  // fresh token, until Done.
  std::optional<proto::Task> Next(absl::Duration timeout);
  void Done();
  bool closed() const;
  // Set when the running task is cancelled.
  const CancelToken& token() const { return token_; }

  // ---- Called by anyone. ----

  // Why the run is over, once the coordinator has said so.
  std::optional<proto::Finish> finish() const;
  // The running task's reason to stop, for the log.
  std::string cancel_reason() const;

 private:
  void CountVerdict(proto::Outcome outcome);
  bool TaskOrClosed() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sets the running task's token; what it returns is to be called after.
  std::function<void()> StopRunning(const std::string& reason)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  SharedCounters<WorkerCounters>& counters_;
  CancelToken token_;

  mutable absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  std::function<void()> wake_ ABSL_GUARDED_BY(mu_) = [] {};
  TaskQueue queue_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  std::string cancel_reason_ ABSL_GUARDED_BY(mu_);
  std::optional<proto::Finish> finish_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sluice

#endif  // SLUICE_WORKER_TASK_TASK_INBOX_H_

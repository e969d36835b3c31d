// The token is that of the task that runs. It is set, and reset, under the lock
// under which the queue says which task that is: so a Cancel that comes late
// cannot stop the next task. `wake_` is called without the lock, because it
// enters the exchange, which has locks of its own.
//
//   Receive(Task 7)      Next returns 7
//   Receive(Task 8)      waits: 7 still runs
//   Receive(Cancel 7)    the token is set; wake_ ends the wait for a chunk of 7
//   Done
//   Next                 8, and the token is reset
//   Receive(Cancel 7)    repeated after a reconnect: 7 is unknown, 8 goes on
#include "worker/task/task_inbox.h"

#include <utility>

#include "common/await_for.h"
#include "common/key_proto.h"

namespace sluice {

void TaskInbox::set_wake(std::function<void()> wake) {
  absl::MutexLock lock(&mu_);
  wake_ = std::move(wake);
}

void TaskInbox::Receive(const proto::FromCoordinator& message) {
  std::function<void()> wake;
  int64_t unstarted;
  {
    absl::MutexLock lock(&mu_);
    const int64_t before = queue_.cancelled_unstarted();
    if (message.has_task()) {
      if (!closed_) queue_.Add(message.task());
    } else if (message.has_cancel()) {
      const proto::Cancel& cancel = message.cancel();
      if (queue_.Cancel(KeyFromProto(cancel.key()))) {
        wake = StopRunning(cancel.reason());
      }
    } else if (message.has_finish()) {
      finish_ = message.finish();
      closed_ = true;
      if (queue_.EndLife()) wake = StopRunning("the run is over");
    }
    unstarted = queue_.cancelled_unstarted() - before;
  }
  counters_.Add(&WorkerCounters::cancelled_unstarted, unstarted);
  if (message.has_verdict()) CountVerdict(message.verdict().outcome());
  if (wake != nullptr) wake();
}

void TaskInbox::CountVerdict(proto::Outcome outcome) {
  if (outcome == proto::APPLIED) counters_.Add(&WorkerCounters::applied);
  if (outcome == proto::DROPPED) counters_.Add(&WorkerCounters::dropped);
}

void TaskInbox::Close(const std::string& reason) {
  std::function<void()> wake;
  int64_t unstarted;
  {
    absl::MutexLock lock(&mu_);
    closed_ = true;
    const int64_t before = queue_.cancelled_unstarted();
    if (queue_.EndLife()) wake = StopRunning(reason);
    unstarted = queue_.cancelled_unstarted() - before;
  }
  counters_.Add(&WorkerCounters::cancelled_unstarted, unstarted);
  if (wake != nullptr) wake();
}

std::function<void()> TaskInbox::StopRunning(const std::string& reason) {
  cancel_reason_ = reason;
  token_.Cancel();
  return wake_;
}

bool TaskInbox::TaskOrClosed() const { return closed_ || !queue_.empty(); }

std::optional<proto::Task> TaskInbox::Next(absl::Duration timeout) {
  absl::MutexLock lock(&mu_);
  AwaitFor(&mu_, absl::Condition(this, &TaskInbox::TaskOrClosed), timeout);
  std::optional<proto::Task> task = queue_.Take();
  if (!task.has_value()) return std::nullopt;
  token_.Reset();
  cancel_reason_.clear();
  return task;
}

void TaskInbox::Done() {
  absl::MutexLock lock(&mu_);
  queue_.Done();
}

bool TaskInbox::closed() const {
  absl::MutexLock lock(&mu_);
  return closed_;
}

std::optional<proto::Finish> TaskInbox::finish() const {
  absl::MutexLock lock(&mu_);
  return finish_;
}

std::string TaskInbox::cancel_reason() const {
  absl::MutexLock lock(&mu_);
  return cancel_reason_;
}

}  // namespace sluice

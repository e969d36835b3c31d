#ifndef SLUICE_WORKER_TASK_MAILBOX_H_
#define SLUICE_WORKER_TASK_MAILBOX_H_

#include <deque>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/await_for.h"

namespace sluice {

// Messages from one thread to another, in order. Thread-safe.
template <typename Message>
class Mailbox {
 public:
  // Never blocks. After Close it does nothing.
  void Put(Message message) {
    absl::MutexLock lock(&mu_);
    if (!closed_) messages_.push_back(std::move(message));
  }

  // No more messages; those already in it can still be taken.
  void Close() {
    absl::MutexLock lock(&mu_);
    closed_ = true;
  }

  // The next message. Blocks until there is one or the box is closed, at most
  // `patience`; nullopt when there is none.
  std::optional<Message> Take(absl::Duration patience) {
    absl::MutexLock lock(&mu_);
    AwaitFor(&mu_, absl::Condition(this, &Mailbox::MessageOrClosed), patience);
    if (messages_.empty()) return std::nullopt;
    Message message = std::move(messages_.front());
    messages_.pop_front();
    return message;
  }

  bool closed() const {
    absl::MutexLock lock(&mu_);
    return closed_;
  }

 private:
  bool MessageOrClosed() const ABSL_SHARED_LOCKS_REQUIRED(mu_) {
    return closed_ || !messages_.empty();
  }

  mutable absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  std::deque<Message> messages_ ABSL_GUARDED_BY(mu_);
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_TASK_MAILBOX_H_

#ifndef SLUICE_WORKER_PIPELINE_LINK_WRITER_H_
#define SLUICE_WORKER_PIPELINE_LINK_WRITER_H_

#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/await_for.h"
#include "common/process/named_thread.h"

namespace sluice {

// Writes to a link on a thread of its own, the only one that a neighbour which
// stands still holds up: gRPC does not end a write whose bytes the socket does
// not take, not even that of a call which is cancelled. It ends when the
// neighbour goes on, or dies.
//
// Thread-safe.
template <typename Message>
class LinkWriter {
 public:
  // `write` may block. Where there is nothing to write for `beat`, it writes an
  // empty message.
  LinkWriter(absl::Duration beat, std::function<void(const Message&)> write)
      : beat_(beat), write_(std::move(write)) {
    thread_ = StartThread("link-write", [this] { Run(); });
  }
  // Waits for the write that is under way.
  ~LinkWriter() {
    Close();
    thread_.join();
  }

  // Has it written, in order; nothing once it is closed. Does not block.
  void Tell(Message message) {
    absl::MutexLock lock(&mu_);
    if (!closed_) queue_.push_back({std::move(message), /*sent=*/false});
  }
  // The same, of much: waits until at most one such message is before it, or it
  // is closed.
  void Send(Message message) {
    const auto ready = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return closed_ || sent_ < kMostSent;
    };
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&ready));
    if (closed_) return;
    ++sent_;
    queue_.push_back({std::move(message), /*sent=*/true});
  }
  // Nobody waits, and nothing more is written.
  void Close() {
    absl::MutexLock lock(&mu_);
    closed_ = true;
  }
  // After Close: waits for the write that is under way.
  void AwaitEnd() {
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&ended_));
  }
  // The same for at most so long; whether it has ended.
  bool EndsWithin(absl::Duration most) {
    absl::MutexLock lock(&mu_);
    return AwaitFor(&mu_, absl::Condition(&ended_), most);
  }

 private:
  struct Entry {
    Message message;
    bool sent = false;  // By Send.
  };
  // One is written while the next one is made.
  static constexpr int kMostSent = 2;

  void Run() {
    const auto ready = [this]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return closed_ || !queue_.empty();
    };
    while (true) {
      Entry next;
      {
        absl::MutexLock lock(&mu_);
        AwaitFor(&mu_, absl::Condition(&ready), beat_);
        ended_ = closed_;
        if (closed_) return;
        if (!queue_.empty()) {
          next = std::move(queue_.front());
          queue_.pop_front();
        }
      }
      write_(next.message);
      absl::MutexLock lock(&mu_);
      if (next.sent) --sent_;
    }
  }

  // Constant after construction.
  const absl::Duration beat_;
  const std::function<void(const Message&)> write_;

  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  std::deque<Entry> queue_ ABSL_GUARDED_BY(mu_);
  int sent_ ABSL_GUARDED_BY(mu_) = 0;  // By Send, and not yet written.
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;

  std::thread thread_;  // Last: it uses what is above.
};

}  // namespace sluice

#endif  // SLUICE_WORKER_PIPELINE_LINK_WRITER_H_

#ifndef SLUICE_COMMON_RPC_COMPLETION_TAG_H_
#define SLUICE_COMMON_RPC_COMPLETION_TAG_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>

#include <functional>
#include <utility>

// The one way in which calls use a completion queue: each operation has a tag,
// an object of its own, and the thread that serves the queue has the tag say
// that the operation has ended.
namespace sluice {

// What a completion queue gives back when an operation has ended.
class CompletionTag {
 public:
  virtual ~CompletionTag() = default;
  // `ok` as in grpc::CompletionQueue::Next. Called on the queue's thread; may
  // destroy the tag in its last statement.
  virtual void Complete(bool ok) = 0;
  // For gRPC, which takes a void*: only this very pointer comes back right.
  void* address() { return this; }
};

// Calls a method of whoever has the tag.
template <typename Owner, void (Owner::*kMethod)(bool ok)>
class MethodTag final : public CompletionTag {
 public:
  explicit MethodTag(Owner* owner) : owner_(owner) {}
  void Complete(bool ok) override { (owner_->*kMethod)(ok); }

 private:
  Owner* const owner_;
};

// Something with operations on a completion queue. It lives until the last of
// them has ended, then deletes itself; so no completion ever finds it gone.
//
// Not thread-safe: call from the queue's thread.
class QueuedCall {
 public:
  QueuedCall(const QueuedCall&) = delete;
  QueuedCall& operator=(const QueuedCall&) = delete;

 protected:
  QueuedCall() = default;
  virtual ~QueuedCall() = default;

  // Calls a method of `Call` when its operation ends.
  template <typename Call, void (Call::*kHandler)(bool ok)>
  class Tag : public CompletionTag {
   public:
    explicit Tag(Call* call) : call_(call) {}
    // The tag for an operation that is started now; address() is that for one
    // that Begin counts later.
    void* Begin() {
      ++call_->operations_;
      return address();
    }

    void Complete(bool ok) override {
      (call_->*kHandler)(ok);
      call_->EndOperation();
    }

   private:
    Call* const call_;
  };

 private:
  void EndOperation() {
    if (--operations_ == 0) delete this;
  }

  int operations_ = 0;
};

// Has whoever serves `queue` call `body`, once and soon. From any thread.
// REQUIRES: the queue has not been shut.
inline void RunOn(grpc::CompletionQueue* queue, std::function<void()> body) {
  class Turn final : public CompletionTag {
   public:
    explicit Turn(std::function<void()> body) : body_(std::move(body)) {}
    void Set(grpc::CompletionQueue* queue) {
      // Rings at once.
      alarm_.Set(queue, gpr_inf_past(GPR_CLOCK_MONOTONIC), address());
    }
    void Complete(bool ok) override {
      body_();
      delete this;
    }

   private:
    const std::function<void()> body_;
    grpc::Alarm alarm_;
  };
  (new Turn(std::move(body)))->Set(queue);
}

// Serves `queue`, on the calling thread, until it is shut and empty.
inline void ServeQueue(grpc::CompletionQueue* queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) static_cast<CompletionTag*>(tag)->Complete(ok);
}

}  // namespace sluice

#endif  // SLUICE_COMMON_RPC_COMPLETION_TAG_H_

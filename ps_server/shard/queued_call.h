#ifndef SLUICE_PS_SERVER_SHARD_QUEUED_CALL_H_
#define SLUICE_PS_SERVER_SHARD_QUEUED_CALL_H_

#include "ps_server/completion_tag.h"

namespace sluice {

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
    // The tag for an operation that is started now.
    void* Begin() {
      ++call_->operations_;
      return Unbegun();
    }
    // The tag alone, for an operation that Begin counts later.
    void* Unbegun() { return static_cast<CompletionTag*>(this); }

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

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_QUEUED_CALL_H_

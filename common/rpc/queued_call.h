#ifndef SLUICE_COMMON_RPC_QUEUED_CALL_H_
#define SLUICE_COMMON_RPC_QUEUED_CALL_H_

#include "common/rpc/completion_tag.h"

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

}  // namespace sluice

#endif  // SLUICE_COMMON_RPC_QUEUED_CALL_H_

#ifndef SLUICE_COMMON_RPC_COMPLETION_TAG_H_
#define SLUICE_COMMON_RPC_COMPLETION_TAG_H_

#include <grpcpp/completion_queue.h>

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

// Serves `queue`, on the calling thread, until it is shut and empty.
inline void ServeQueue(grpc::CompletionQueue* queue) {
  void* tag = nullptr;
  bool ok = false;
  while (queue->Next(&tag, &ok)) static_cast<CompletionTag*>(tag)->Complete(ok);
}

}  // namespace sluice

#endif  // SLUICE_COMMON_RPC_COMPLETION_TAG_H_

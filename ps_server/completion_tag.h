#ifndef SLUICE_PS_SERVER_COMPLETION_TAG_H_
#define SLUICE_PS_SERVER_COMPLETION_TAG_H_

namespace sluice {

// What a completion queue gives back when an operation has ended.
class CompletionTag {
 public:
  virtual ~CompletionTag() = default;
  // `ok` as in grpc::CompletionQueue::Next. Called on the queue's thread.
  virtual void Complete(bool ok) = 0;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COMPLETION_TAG_H_

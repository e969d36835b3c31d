#ifndef SLUICE_WORKER_EXCHANGE_COMPLETION_LOOP_H_
#define SLUICE_WORKER_EXCHANGE_COMPLETION_LOOP_H_

#include <grpcpp/completion_queue.h>

#include <cstdint>
#include <thread>

#include "absl/status/status.h"

namespace sluice {

// What an operation on the queue is tagged with.
class Completion {
 public:
  // The operation has ended; `ok` as in grpc::CompletionQueue::Next. Called on
  // the loop's thread; may destroy the object in its last statement.
  virtual void OnCompletion(bool ok) = 0;

 protected:
  ~Completion() = default;
};

// Hears how a call goes and how it ended.
class CallObserver {
 public:
  // Something is asked of the shard: it is to answer.
  virtual void OnAsked(int shard) = 0;
  // Something of the call has moved: the shard can be reached.
  virtual void OnMoved(int shard) = 0;
  // So many floats of the slice are in their place, or are being sent, from its
  // beginning or, of a push, from its end. From the loop's thread or the one
  // that computes.
  virtual void OnProgress(int shard, int64_t floats) = 0;
  // Nothing travels until more of the gradient is final.
  virtual void OnRest(int shard) = 0;
  // The call to shard `shard` has ended and does nothing more; it may be
  // destroyed as soon as this has been called. From the loop's thread or the
  // one that cancelled the call.
  virtual void OnCallEnded(int shard, const absl::Status& status) = 0;

 protected:
  ~CallObserver() = default;
};

// One completion queue with the thread that serves it: it decodes what comes
// in where it comes in, without a hand-over. Of a process's queues gRPC lets
// one thread at a time listen to the sockets of all, and hand over what is
// another's: what goes on at once in a process is faster on one loop.
//
// Thread-safe.
class CompletionLoop {
 public:
  CompletionLoop();
  // REQUIRES: every operation on the queue has ended or will by itself.
  ~CompletionLoop();

  grpc::CompletionQueue* queue() { return &queue_; }

 private:
  void Serve();

  grpc::CompletionQueue queue_;
  std::thread thread_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_COMPLETION_LOOP_H_

#ifndef SLUICE_WORKER_EXCHANGE_COMPLETION_LOOP_H_
#define SLUICE_WORKER_EXCHANGE_COMPLETION_LOOP_H_

#include <grpcpp/completion_queue.h>

#include <thread>

namespace sluice {

// One completion queue with the thread that serves it (completion_tag.h): it
// decodes what comes in where it comes in, without a hand-over. Of a process's
// queues gRPC lets one thread at a time listen to the sockets of all, and hand
// over what is another's: what goes on at once in a process is faster on one
// loop.
//
// Thread-safe.
class CompletionLoop {
 public:
  CompletionLoop();
  // REQUIRES: every operation on the queue has ended or will by itself.
  ~CompletionLoop();

  grpc::CompletionQueue* queue() { return &queue_; }

 private:
  grpc::CompletionQueue queue_;
  std::thread thread_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_COMPLETION_LOOP_H_

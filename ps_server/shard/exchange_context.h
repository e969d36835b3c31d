#ifndef SLUICE_PS_SERVER_SHARD_EXCHANGE_CONTEXT_H_
#define SLUICE_PS_SERVER_SHARD_EXCHANGE_CONTEXT_H_

#include <grpcpp/completion_queue.h>

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "proto/exchange.grpc.pb.h"
#include "ps_server/shard/exchange_counters.h"
#include "ps_server/shard/shard.h"

namespace sluice {

class PullCall;

// Requests and replies stay gRPC's raw buffers.
using RawExchange = proto::Exchange::WithRawMethod_Pull<
    proto::Exchange::WithRawMethod_Push<proto::Exchange::Service>>;

// Counters that the exchange thread raises and others read.
// Thread-safe.
class SharedCounters {
 public:
  void Add(int64_t ExchangeCounters::*counter, int64_t n = 1) {
    absl::MutexLock lock(&mu_);
    counters_.*counter += n;
  }
  void Set(int64_t ExchangeCounters::*counter, int64_t n) {
    absl::MutexLock lock(&mu_);
    counters_.*counter = n;
  }
  ExchangeCounters Get() const {
    absl::MutexLock lock(&mu_);
    return counters_;
  }

 private:
  mutable absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  ExchangeCounters counters_ ABSL_GUARDED_BY(mu_);
};

// What the calls of one shard share. All but `counters` belongs to the
// exchange thread.
struct ExchangeContext {
  Shard* shard;
  Clock* clock;
  absl::Duration stall;  // As ExchangeService's.
  RawExchange service;
  std::unique_ptr<grpc::ServerCompletionQueue> queue;
  SharedCounters counters;

  // Calls that are streaming a version, and calls that wait for one.
  absl::flat_hash_map<ReadId, PullCall*> reading;
  absl::flat_hash_set<PullCall*> parked;

  // Calls that exist, also those waiting for a client. When stopping and all
  // are gone, nothing can start another operation and the queue is shut.
  int calls = 0;
  bool stopping = false;

  void CallGone() {
    --calls;
    ShutQueueIfDone();
  }
  void ShutQueueIfDone() {
    if (stopping && calls == 0) queue->Shutdown();
  }
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_EXCHANGE_CONTEXT_H_

#ifndef SLUICE_WORKER_EXCHANGE_PUSH_ATTEMPT_H_
#define SLUICE_WORKER_EXCHANGE_PUSH_ATTEMPT_H_

#include <grpcpp/generic/generic_stub.h>

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "common/parameter_layout.h"
#include "common/wire/wire_format.h"
#include "worker/exchange/chunk_feed.h"
#include "worker/exchange/completion_loop.h"

namespace sluice {

// The gradient that is pushed, as every shard's call sees it.
struct PushedGradient {
  GradientKey key;
  uint64_t grant = 0;
  absl::Span<const float> values;  // The flat vector.
};

// One attempt to push one shard's slice: its chunks as they become final, then
// the shard's word that all of it is staged. The call opens with the first
// chunk, and has no deadline of its own: it lasts as long as the passes that
// make the gradient, and whoever waits for it cancels one that has stalled. A
// slice of one chunk is a unary call, as in PullAttempt.
//
// One operation is under way at a time; whoever starts it, the thread that
// computes or the loop's, has taken the `busy_` mark first and owns the stream
// until it passes the mark on.
//
// Not thread-safe: call from the thread that computes.
class PushAttempt final : private Completion {
 public:
  // How the chunks of a slice travel; all that the pointers name must stay
  // until the observer has heard the end.
  struct Path {
    int shard = 0;
    ParameterRange range;
    int64_t chunk_floats = 0;
    const WireFormat* format = nullptr;
    FloatType type = FloatType::kFp32;
    grpc::GenericStub* stub = nullptr;
    grpc::CompletionQueue* queue = nullptr;
    CallObserver* observer = nullptr;
  };

  PushAttempt(const Path& path, const PushedGradient& gradient);

  // Everything of the gradient from float `from` on is final.
  void Offer(int64_t from);
  // Ends the call soon, unless it has ended; the observer hears it.
  void Cancel();

 private:
  enum class Stage { kChunks, kReply, kWhole, kStatus };

  void OnCompletion(bool ok) override;
  void SendChunk(ParameterRange chunk);
  void SendWhole(const grpc::ByteBuffer& message);
  void AfterChunk(bool ok);
  void ReadReply();
  void AskStatus();
  absl::Status Outcome() const;

  // Constant after construction.
  const Path path_;
  const PushedGradient gradient_;

  // Of whoever holds the mark.
  grpc::ClientContext context_;
  // One of these two.
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> whole_;
  Stage stage_ = Stage::kChunks;
  int64_t floats_sent_ = 0;
  grpc::ByteBuffer reply_;
  bool replied_ = false;
  grpc::Status status_;

  absl::Mutex mu_;  // Only the observer's is acquired under it.
  ChunkFeed feed_ ABSL_GUARDED_BY(mu_);
  bool busy_ ABSL_GUARDED_BY(mu_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_PUSH_ATTEMPT_H_

#ifndef SLUICE_WORKER_EXCHANGE_PULL_ATTEMPT_H_
#define SLUICE_WORKER_EXCHANGE_PULL_ATTEMPT_H_

#include <grpcpp/generic/generic_stub.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "common/parameter_layout.h"
#include "common/wire/wire_format.h"
#include "proto/exchange.pb.h"
#include "worker/exchange/completion_loop.h"
#include "worker/exchange/pull_assembly.h"

namespace sluice {

// One attempt to pull one shard's slice, or what is missing of it: request,
// chunks, status. Each chunk is checked and copied straight to its place. A
// slice of one chunk is asked for as a unary call, which is the same on the
// wire but one operation instead of four: the loop wakes once, when the answer
// is here.
//
// Runs on the loop's thread; Cancel from any.
//
// Thread-compatible.
class PullAttempt final : private Completion {
 public:
  // What is pulled, and how it travels; all that is pointed to must stay until
  // the observer has heard the end.
  struct Slice {
    int shard = 0;
    ParameterRange range;
    int64_t chunk_floats = 0;
    const WireFormat* format = nullptr;
    FloatType type = FloatType::kFp32;
    absl::Span<float> into;            // The range's floats.
    PullAssembly* assembly = nullptr;  // The chunks that are here.
    CallObserver* observer = nullptr;
  };

  explicit PullAttempt(const Slice& slice);

  // Begins; version, offset and type go into the request. The call has no
  // deadline of its own: it lasts as long as chunks come, and whoever waits for
  // it cancels one that has stalled. REQUIRES: called once.
  void Start(proto::PullRequest request, grpc::GenericStub* stub,
             grpc::CompletionQueue* queue);
  // Ends the call soon, unless it has ended.
  void Cancel() { context_.TryCancel(); }

 private:
  enum class Stage { kRequest, kChunks, kWhole, kStatus };

  void OnCompletion(bool ok) override;
  void ReadChunk();
  void AskStatus();
  // Handles the chunk that came, while the next one is read.
  void TakeChunk();
  // Checks a chunk and brings its floats to their place.
  absl::Status Copy(const grpc::ByteBuffer& message);
  void Progressed();
  absl::Status Outcome();

  // Constant after construction.
  const Slice slice_;
  const bool one_chunk_;

  // Of the loop's thread after Start.
  grpc::ClientContext context_;
  // One of these two.
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> whole_;
  Stage stage_ = Stage::kRequest;
  grpc::ByteBuffer chunk_;
  absl::Status problem_;  // What is wrong with the chunks.
  grpc::Status status_;   // What the shard says.
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_PULL_ATTEMPT_H_

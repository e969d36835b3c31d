#ifndef SLUICE_WORKER_EXCHANGE_PULL_ATTEMPT_H_
#define SLUICE_WORKER_EXCHANGE_PULL_ATTEMPT_H_

#include <grpcpp/generic/generic_stub.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "proto/exchange.pb.h"
#include "worker/exchange/completion_loop.h"
#include "worker/exchange/pull_assembly.h"

namespace sluice {

// One attempt to pull one shard's slice: request, chunks, status. Each chunk
// is checked and copied straight to its place. A slice of one chunk is asked
// for as a unary call, which is the same on the wire but one operation instead
// of four: the loop wakes once, when the answer is here.
//
// Runs on the loop's thread; Cancel from any.
//
// Thread-compatible.
class PullAttempt final : private Completion {
 public:
  // Fills `into`, the shard's range of the flat vector, which must stay until
  // the observer has heard the end; so must everything else. The shard sends it
  // in chunks of `chunk_floats`.
  PullAttempt(int shard, absl::Span<float> into, int64_t chunk_floats,
              CallObserver* observer);

  // Begins. REQUIRES: called once.
  void Start(const proto::PullRequest& request, absl::Duration timeout,
             grpc::GenericStub* stub, grpc::CompletionQueue* queue);
  // Ends the call soon, unless it has ended.
  void Cancel() { context_.TryCancel(); }

  // After a good end: the version of all of the slice.
  Version version() const { return assembly_.version(); }

 private:
  enum class Stage { kRequest, kChunks, kWhole, kStatus };

  void OnCompletion(bool ok) override;
  void ReadChunk();
  void AskStatus();
  // Handles the chunk that came, while the next one is read.
  void TakeChunk();
  // Checks a chunk and copies its floats to their place.
  absl::Status Copy(const grpc::ByteBuffer& message);
  absl::Status Outcome() const;

  // Constant after construction.
  const int shard_;
  const absl::Span<float> into_;
  const bool one_chunk_;
  CallObserver* const observer_;

  // Of the loop's thread after Start.
  grpc::ClientContext context_;
  // One of these two.
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> whole_;
  Stage stage_ = Stage::kRequest;
  PullAssembly assembly_;
  grpc::ByteBuffer chunk_;
  absl::Status problem_;  // What is wrong with the chunks.
  grpc::Status status_;   // What the shard says.
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_PULL_ATTEMPT_H_

#include "worker/exchange/pull_attempt.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"
#include "common/wire/chunk_codec.h"

namespace sluice {
namespace {

constexpr char kMethod[] = "/sluice.proto.Exchange/Pull";

}  // namespace

PullAttempt::PullAttempt(int shard, absl::Span<float> into,
                         int64_t chunk_floats, CallObserver* observer)
    : shard_(shard),
      into_(into),
      one_chunk_(static_cast<int64_t>(into.size()) <= chunk_floats),
      observer_(observer),
      assembly_(static_cast<int64_t>(into.size()), Version(0),
                /*exact=*/false) {}

void PullAttempt::Start(const proto::PullRequest& request,
                        absl::Duration timeout, grpc::GenericStub* stub,
                        grpc::CompletionQueue* queue) {
  assembly_ = PullAssembly(static_cast<int64_t>(into_.size()),
                           Version(request.version()), request.exact());
  SetTimeout(timeout, &context_);
  if (one_chunk_) {
    stage_ = Stage::kWhole;
    whole_ = stub->PrepareUnaryCall(&context_, kMethod, EncodeMessage(request),
                                    queue);
    whole_->StartCall();
    whole_->Finish(&chunk_, &status_, static_cast<Completion*>(this));
    return;
  }
  // Opening and request travel together.
  context_.set_initial_metadata_corked(true);
  stream_ = stub->PrepareCall(&context_, kMethod, queue);
  stream_->StartCall(nullptr);
  stream_->WriteLast(EncodeMessage(request), grpc::WriteOptions(),
                     static_cast<Completion*>(this));
}

void PullAttempt::OnCompletion(bool ok) {
  switch (stage_) {
    case Stage::kRequest:
      return ok ? ReadChunk() : AskStatus();
    case Stage::kChunks:
      if (!ok || !problem_.ok()) return AskStatus();
      return TakeChunk();
    case Stage::kWhole:
      if (chunk_.Valid()) problem_ = Copy(chunk_);
      [[fallthrough]];
    case Stage::kStatus:
      observer_->OnCallEnded(shard_, Outcome());
      return;
  }
}

void PullAttempt::ReadChunk() {
  stage_ = Stage::kChunks;
  stream_->Read(&chunk_, static_cast<Completion*>(this));
}

void PullAttempt::AskStatus() {
  stage_ = Stage::kStatus;
  stream_->Finish(&status_, static_cast<Completion*>(this));
}

void PullAttempt::TakeChunk() {
  // The next chunk may travel while this one is copied: its sender gets no
  // window for it before it is asked for.
  const grpc::ByteBuffer message = std::exchange(chunk_, {});
  ReadChunk();
  problem_ = Copy(message);
  // Then the read under way ends soon.
  if (!problem_.ok()) context_.TryCancel();
}

absl::Status PullAttempt::Copy(const grpc::ByteBuffer& message) {
  SLUICE_ASSIGN_OR_RETURN(const auto chunk, DecodePullChunk(message));
  const int64_t at = assembly_.received();
  const size_t bytes = chunk.payload.bytes();
  if (bytes % sizeof(float) != 0) {
    return absl::DataLossError(
        absl::StrCat("a chunk has ", bytes, " bytes, expected whole floats"));
  }
  const int64_t floats = static_cast<int64_t>(bytes / sizeof(float));
  SLUICE_RETURN_IF_ERROR(
      assembly_.Accept(chunk.header.version, chunk.header.offset, floats));
  return chunk.payload.CopyTo(into_.subspan(at, floats));
}

absl::Status PullAttempt::Outcome() const {
  SLUICE_RETURN_IF_ERROR(problem_);
  SLUICE_RETURN_IF_ERROR(FromGrpcStatus(status_));
  return assembly_.Finish();
}

}  // namespace sluice

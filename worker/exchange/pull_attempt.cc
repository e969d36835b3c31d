#include "worker/exchange/pull_attempt.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"
#include "common/wire/chunk_codec.h"

namespace sluice {
namespace {

constexpr char kMethod[] = "/sluice.proto.Exchange/Pull";

}  // namespace

PullAttempt::PullAttempt(const Slice& slice)
    : slice_(slice), one_chunk_(slice.range.size() <= slice.chunk_floats) {}

void PullAttempt::Start(proto::PullRequest request, grpc::GenericStub* stub,
                        grpc::CompletionQueue* queue) {
  const PullAssembly::Question question = slice_.assembly->Ask();
  request.set_version(question.version.value());
  request.set_exact(question.exact);
  request.set_offset(question.offset);
  request.set_type(static_cast<proto::FloatType>(slice_.type));
  slice_.observer->OnAsked(slice_.shard);
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
      if (chunk_.Valid() && problem_.ok()) Progressed();
      [[fallthrough]];
    case Stage::kStatus:
      slice_.observer->OnCallEnded(slice_.shard, Outcome());
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
  if (problem_.ok()) return Progressed();
  context_.TryCancel();  // The read under way ends soon.
}

absl::Status PullAttempt::Copy(const grpc::ByteBuffer& message) {
  SLUICE_ASSIGN_OR_RETURN(const auto chunk, DecodePullChunk(message));
  if (chunk.header.type != slice_.type) {
    return absl::DataLossError(
        absl::StrCat("a chunk is ", NameOf(chunk.header.type), ", expected ",
                     NameOf(slice_.type)));
  }
  const int64_t at = slice_.assembly->received();
  const int64_t floats =
      std::min(slice_.chunk_floats, slice_.range.size() - at);
  const ParameterRange range = {slice_.range.begin + at,
                                slice_.range.begin + at + floats};
  const int64_t expected = slice_.format->Bytes(slice_.type, range);
  if (static_cast<int64_t>(chunk.payload.bytes()) != expected) {
    return absl::DataLossError(absl::StrCat("a chunk at ", at, " has ",
                                            chunk.payload.bytes(),
                                            " bytes, expected ", expected));
  }
  SLUICE_RETURN_IF_ERROR(slice_.assembly->Accept(chunk.header.version,
                                                 chunk.header.offset, floats));
  return slice_.format->Decode(slice_.type, range, chunk.payload,
                               slice_.into.subspan(at, floats));
}

void PullAttempt::Progressed() {
  slice_.observer->OnMoved(slice_.shard);
  slice_.observer->OnProgress(slice_.shard, slice_.assembly->received());
}

absl::Status PullAttempt::Outcome() {
  SLUICE_RETURN_IF_ERROR(problem_);
  return slice_.assembly->End(FromGrpcStatus(status_));
}

}  // namespace sluice

#include "worker/exchange/push_attempt.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"
#include "common/wire/chunk_codec.h"
#include "proto/exchange.pb.h"

namespace sluice {
namespace {

constexpr char kMethod[] = "/sluice.proto.Exchange/Push";

}  // namespace

PushAttempt::PushAttempt(const Path& path, const PushedGradient& gradient)
    : path_(path), gradient_(gradient), feed_(path.range, path.chunk_floats) {}

void PushAttempt::Offer(int64_t from) {
  std::optional<ParameterRange> chunk;
  {
    absl::MutexLock lock(&mu_);
    feed_.MarkFinal(from);
    if (busy_ || cancelled_) return;
    chunk = feed_.Take();
    if (!chunk.has_value()) return;
    busy_ = true;
  }
  SendChunk(*chunk);
}

void PushAttempt::Cancel() {
  bool resting = false;
  {
    absl::MutexLock lock(&mu_);
    if (cancelled_) return;
    cancelled_ = true;
    resting = !busy_;
    busy_ = true;
  }
  context_.TryCancel();
  if (!resting) return;
  if (stream_ != nullptr) return AskStatus();
  path_.observer->OnCallEnded(path_.shard, absl::CancelledError("never begun"));
}

void PushAttempt::SendChunk(ParameterRange chunk) {
  floats_sent_ += chunk.size();
  path_.observer->OnProgress(path_.shard, floats_sent_);
  // The transport may hold a message beyond the end of its call, when the
  // gradient's memory already takes the next gradient: hence the copy.
  const grpc::ByteBuffer message = EncodePushChunk(
      {.key = gradient_.key,
       .grant = gradient_.grant,
       .offset = chunk.begin - path_.range.begin,
       .type = path_.type},
      CopyOf(*path_.format, path_.type, chunk,
             gradient_.values.subspan(chunk.begin, chunk.size())));
  if (chunk.size() == path_.range.size()) return SendWhole(message);
  if (stream_ == nullptr) {
    // Opening and first chunk travel together.
    context_.set_initial_metadata_corked(true);
    stream_ = path_.stub->PrepareCall(&context_, kMethod, path_.queue);
    stream_->StartCall(nullptr);
  }
  auto* const tag = static_cast<Completion*>(this);
  if (floats_sent_ == path_.range.size()) {
    stream_->WriteLast(message, grpc::WriteOptions(), tag);
  } else {
    stream_->Write(message, tag);
  }
}

void PushAttempt::SendWhole(const grpc::ByteBuffer& message) {
  stage_ = Stage::kWhole;
  whole_ =
      path_.stub->PrepareUnaryCall(&context_, kMethod, message, path_.queue);
  whole_->StartCall();
  whole_->Finish(&reply_, &status_, static_cast<Completion*>(this));
}

void PushAttempt::OnCompletion(bool ok) {
  switch (stage_) {
    case Stage::kChunks:
      return AfterChunk(ok);
    case Stage::kReply:
      replied_ = ok;
      return AskStatus();
    case Stage::kWhole:
      replied_ = reply_.Valid();
      [[fallthrough]];
    case Stage::kStatus:
      path_.observer->OnCallEnded(path_.shard, Outcome());
      return;
  }
}

void PushAttempt::AfterChunk(bool ok) {
  if (ok) path_.observer->OnMoved(path_.shard);
  // A shard may answer before it has read everything: a repeated push.
  if (!ok || floats_sent_ == path_.range.size()) return ReadReply();
  std::optional<ParameterRange> chunk;
  {
    absl::MutexLock lock(&mu_);
    if (!cancelled_) {
      chunk = feed_.Take();
      busy_ = chunk.has_value();
      if (!busy_) {  // Rests until the next Offer.
        path_.observer->OnRest(path_.shard);
        return;
      }
    }
  }
  chunk.has_value() ? SendChunk(*chunk) : AskStatus();
}

void PushAttempt::ReadReply() {
  stage_ = Stage::kReply;
  stream_->Read(&reply_, static_cast<Completion*>(this));
}

void PushAttempt::AskStatus() {
  stage_ = Stage::kStatus;
  stream_->Finish(&status_, static_cast<Completion*>(this));
}

absl::Status PushAttempt::Outcome() const {
  SLUICE_RETURN_IF_ERROR(FromGrpcStatus(status_));
  proto::PushReply reply;
  if (!replied_) return absl::DataLossError("answered a push without a reply");
  SLUICE_RETURN_IF_ERROR(DecodeMessage(reply_, &reply));
  if (reply.staged() == path_.range.size()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      "staged ", reply.staged(), " floats, expected ", path_.range.size()));
}

}  // namespace sluice

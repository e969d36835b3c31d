// One chunk is staged while the next travels (TakeChunk asks for it before it
// stages). A chunk whose gradient finds no room waits with its call, and is
// looked at again after each decision. The call ends by itself when the last
// one is staged: the reply says so to the worker, which may then say Ready once
// all shards have answered. If its Ready came with the gradient, the
// coordinator has it before the reply is sent. The read that is under way then
// comes to nothing.
//
//   OnCall      the caller may push: read 0
//   OnRead      read 1, stage 0
//   OnRead      read 2, stage 1
//   OnRead      read 3, stage 2: all of it, Finish with the reply
//   OnRead      of 3: finished_, so whatever it brings is ignored
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/exchange_error.h"
#include "common/rpc/deadline.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"
#include "common/wire/chunk_codec.h"
#include "proto/exchange.pb.h"
#include "ps_server/shard/exchange_calls.h"
#include "third_party/spdlog.h"

namespace sluice {

void PushCall::Listen(ExchangeContext* context) {
  auto* call = new PushCall(context);
  call->call_.AsyncNotifyWhenDone(call->on_done_.address());
  context->service.Accept(kPushNumber, &call->call_, &call->stream_,
                          context->queue.get(), call->on_call_.Begin());
}

PushCall::PushCall(ExchangeContext* context)
    : context_(context), stream_(&call_) {
  ++context_->calls;
}

PushCall::~PushCall() { context_->CallGone(); }

void PushCall::OnCall(bool ok) {
  if (!ok) return;  // The server is shutting down.
  on_done_.Begin();
  if (!context_->stopping) Listen(context_);
  auto place = context_->admission.Admit(call_, Rpc::kPush);
  if (!place.ok()) return Refuse(place.status());
  place_ = *std::move(place);
  context_->watch.Begin(this);
  ReadChunk();
}

// From the first chunk on the call is that of a task, which has its own end; a
// layer may take any time to compute.
void PushCall::OnStalled(absl::Duration silent) {
  Refuse(absl::DeadlineExceededError(
      absl::StrCat("the push brought no chunk for ",
                   absl::FormatDuration(context_->stall))));
}

void PushCall::ReadChunk() { stream_.Read(&chunk_, on_read_.Begin()); }

void PushCall::OnRead(bool ok) {
  if (finished_) return;  // The read that was under way then.
  if (!ok) return EndEarly();
  place_.Took(static_cast<int64_t>(chunk_.Length()));
  TakeChunk();
}

void PushCall::TakeChunk() {
  const grpc::ByteBuffer message = std::exchange(chunk_, {});
  const auto chunk = DecodePushChunk(message);
  if (!chunk.ok()) return Refuse(chunk.status());
  if (!context_->shard->Admits(chunk->header, place_.caller().key)) {
    chunk_ = message;
    return Park(chunk->header.key);
  }
  Unpark();
  // The next chunk may travel while this one is staged: its sender gets no
  // window for it before it is asked for.
  ReadChunk();
  const absl::StatusOr<bool> staged = Stage(*chunk);
  if (!staged.ok()) return Refuse(staged.status());
  context_->watch.End(this);
  if (*staged) Accept();
}

// As a pull that waits for its version: its sender is told to come again before
// it takes the call for one that has stalled.
void PushCall::Park(const GradientKey& key) {
  if (!context_->waiting.insert(this).second) return;
  context_->watch.End(this);
  context_->counters.Add(&ExchangeCounters::pushes_parked);
  key_ = key;
  alarm_.emplace();
  alarm_->Set(context_->queue.get(), FromNow(context_->longest_park()),
              on_alarm_.Begin());
}

void PushCall::Unpark() {
  if (context_->waiting.erase(this) > 0) alarm_->Cancel();
}

void PushCall::OnAlarm(bool ok) {
  if (context_->waiting.erase(this) == 0) return;  // Unparked meanwhile.
  const Staging& staging = context_->shard->staging();
  Finish(WithReason(proto::ExchangeError::NOT_YET,
                    absl::UnavailableError(absl::StrCat(
                        "gradient ", key_->ToString(),
                        " waits for its turn: ", staging.held(),
                        " gradients are here, and the next that is to be "
                        "folded is number ",
                        staging.turn(), " of its update"))));
}

absl::StatusOr<bool> PushCall::Stage(const Received& chunk) {
  if (!key_) key_ = chunk.header.key;
  if (chunk.header.key != *key_) {
    return absl::InvalidArgumentError(
        absl::StrCat("one push carries gradients ", key_->ToString(), " and ",
                     chunk.header.key.ToString()));
  }
  if (chunk.header.shared.has_value()) return StageShared(chunk.header);
  return Stage(chunk.header, chunk.payload);
}

absl::StatusOr<bool> PushCall::StageShared(PushChunkHeader header) {
  const SharedFloats& floats = *header.shared;
  const auto link =
      context_->links == nullptr
          ? nullptr
          : context_->links->Find(floats.link, place_.caller().key);
  if (link == nullptr) {
    return absl::UnavailableError(absl::StrCat(
        "gradient ", header.key.ToString(),
        " lies in memory of a link that is none, or not any more"));
  }
  SLUICE_ASSIGN_OR_RETURN(absl::Span<const uint8_t> rest, link->Find(floats));
  context_->counters.Add(&ExchangeCounters::shared_bytes, rest.size());
  const ChunkGrid& grid = context_->shard->staging().grid();
  while (true) {
    const int chunk = grid.ChunkAt(header.offset);
    const size_t bytes =
        chunk < 0 ? rest.size() : grid.size(chunk) * sizeof(float);
    SLUICE_ASSIGN_OR_RETURN(
        const bool all, Stage(header, Payload::Shared(rest.subspan(0, bytes))));
    if (bytes >= rest.size()) return all;
    rest.remove_prefix(bytes);
    header.offset += grid.size(chunk);
  }
}

absl::StatusOr<bool> PushCall::Stage(const PushChunkHeader& header,
                                     const Payload& payload) {
  context_->counters.Add(&ExchangeCounters::push_bytes, payload.bytes());
  offset_ = header.offset;
  const auto staged =
      context_->shard->Stage(header, payload, place_.caller().key);
  context_->counters.Set(&ExchangeCounters::duplicate_chunks,
                         context_->shard->staging().duplicate_chunks());
  return staged;
}

void PushCall::Accept() {
  const std::string ready = context_->shard->TakeReady(*key_);
  if (!ready.empty()) {
    const absl::Status taken = context_->take_ready(*key_, ready);
    // kInvalidArgument would say that the gradient is bad.
    if (absl::IsInvalidArgument(taken)) {
      return Refuse(absl::DataLossError(taken.message()));
    }
    if (!taken.ok()) return Refuse(taken);
  }
  context_->counters.Add(&ExchangeCounters::pushes_staged);
  const ChunkGrid& grid = context_->shard->staging().grid();
  Reply(grid.PartFloats(grid.PartOf(grid.ChunkAt(offset_))));
}

void PushCall::Reply(int64_t staged) {
  proto::PushReply reply;
  reply.set_staged(staged);
  finished_ = true;
  stream_.WriteAndFinish(EncodeMessage(reply), grpc::WriteOptions(),
                         grpc::Status::OK, on_finished_.Begin());
}

// The client closed its side, or is gone: only OnDone knows which. Another call
// may bring the rest.
void PushCall::EndEarly() {
  ended_early_ = true;
  if (!key_.has_value()) {
    return Refuse(
        absl::InvalidArgumentError("the push ended before its first chunk"));
  }
  const auto here = context_->shard->staging().FloatsHere(*key_, offset_);
  here.ok() ? Reply(*here) : Finish(here.status());
}

void PushCall::Refuse(const absl::Status& status) {
  context_->counters.Add(&ExchangeCounters::pushes_refused);
  spdlog::debug("event=push_refused peer={} reason={}", call_.peer(),
                LogValue(status.message()));
  Finish(status);
}

void PushCall::Finish(const absl::Status& status) {
  context_->watch.End(this);
  finished_ = true;
  stream_.Finish(ToGrpcStatus(status), on_finished_.Begin());
}

void PushCall::OnDone(bool ok) {
  context_->watch.End(this);
  Unpark();
  if (ended_early_ && call_.IsCancelled()) {
    context_->counters.Add(&ExchangeCounters::pushes_cancelled);
  }
}

}  // namespace sluice

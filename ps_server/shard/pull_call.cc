#include "ps_server/shard/pull_call.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/status_conversion.h"
#include "proto/exchange.pb.h"

namespace sluice {
namespace {

// A parked call is answered NOT_YET when this share of its time is over: early
// enough for the answer to arrive, late enough that repeats are rare.
constexpr double kShareOfDeadline = 0.75;
// For calls without a deadline, or with one far away: a client whose machine
// vanished does not stay parked for long.
constexpr absl::Duration kLongestPark = absl::Seconds(30);

}  // namespace

void PullCall::Listen(ExchangeContext* context) {
  auto* call = new PullCall(context);
  call->call_.AsyncNotifyWhenDone(call->on_done_.Unbegun());
  context->service.RequestPull(&call->call_, &call->request_, &call->writer_,
                               context->queue.get(), context->queue.get(),
                               call->on_request_.Begin());
}

PullCall::PullCall(ExchangeContext* context)
    : context_(context), writer_(&call_) {
  ++context_->calls;
}

PullCall::~PullCall() {
  LetGo();
  context_->CallGone();
}

void PullCall::OnRequest(bool ok) {
  if (!ok) return;  // The server is shutting down.
  on_done_.Begin();
  if (!context_->stopping) Listen(context_);
  proto::PullRequest request;
  const absl::Status status = DecodeMessage(request_, &request);
  request_.Clear();
  if (!status.ok()) {
    context_->counters.Add(&ExchangeCounters::pulls_refused);
    return Finish(status);
  }
  type_ = static_cast<FloatType>(request.type());
  if (!IsFloatType(type_)) {
    context_->counters.Add(&ExchangeCounters::pulls_refused);
    return Finish(absl::InvalidArgumentError(
        absl::StrCat("the pull's type is ", request.type(),
                     ", expected a FloatType: FP32, BF16 or FP16")));
  }
  query_ = {Generation(request.generation()), Version(request.version()),
            request.exact()};
  Answer();
}

void PullCall::Answer() {
  auto read = context_->shard->Pull(query_);
  if (!read.ok()) {
    context_->counters.Add(&ExchangeCounters::pulls_refused);
    Unpark();
    return Finish(read.status());
  }
  if (!read->has_value()) return Park();
  Unpark();
  read_ = *std::move(read);
  context_->reading.emplace(read_->id, this);
  SendNext();
}

void PullCall::Retry() { Answer(); }

void PullCall::Park() {
  if (!context_->parked.insert(this).second) return;
  context_->counters.Add(&ExchangeCounters::pulls_parked);
  alarm_.emplace();
  alarm_->Set(context_->queue.get(),
              absl::ToChronoTime(context_->clock->Now() + Patience()),
              on_alarm_.Begin());
}

void PullCall::Unpark() {
  if (context_->parked.erase(this) > 0) alarm_->Cancel();
}

absl::Duration PullCall::Patience() const {
  const absl::Duration left =
      absl::FromChrono(call_.deadline()) - context_->clock->Now();
  return std::clamp(left * kShareOfDeadline, absl::ZeroDuration(),
                    kLongestPark);
}

void PullCall::OnAlarm(bool ok) {
  if (context_->parked.erase(this) == 0) return;  // Unparked meanwhile.
  context_->counters.Add(&ExchangeCounters::pulls_not_yet);
  Finish(absl::UnavailableError(absl::StrCat(
      "NOT_YET version ", query_.version.value(), " was asked for, the newest ",
      "is ", context_->shard->version().value())));
}

// FP32 is sent from where it lies: the chunk's reference goes to gRPC, which
// drops it when it has sent it.
ChunkData PullCall::DataOf(int chunk) const {
  const Shard& shard = *context_->shard;
  const ChunkRef held = read_->snapshot->chunks[chunk];
  const auto floats =
      absl::MakeConstSpan(held.data(), shard.grid().size(chunk));
  if (type_ == FloatType::kFp32) return InPlace(floats, [held] {});
  const int64_t begin = shard.range().begin + shard.grid().begin(chunk);
  return CopyOf(shard.wire_format(), type_,
                {begin, begin + shard.grid().size(chunk)}, floats);
}

void PullCall::SendNext() {
  const ChunkGrid& grid = context_->shard->grid();
  const int chunk = next_chunk_++;
  ChunkData data = DataOf(chunk);
  context_->counters.Add(&ExchangeCounters::pull_bytes, data.bytes.size());
  const grpc::ByteBuffer message = EncodePullChunk(
      {read_->snapshot->version, grid.begin(chunk), type_}, std::move(data));
  if (next_chunk_ < grid.count()) {
    writer_.Write(message, on_sent_.Begin());
    return;
  }
  LetGo();
  finished_ = true;
  context_->counters.Add(&ExchangeCounters::pulls_served);
  writer_.WriteAndFinish(message, grpc::WriteOptions(), grpc::Status::OK,
                         on_finished_.Begin());
}

void PullCall::OnSent(bool ok) {
  if (!ok) return LetGo();  // The client is gone; OnDone counts it.
  if (ended_) {
    return Finish(absl::ResourceExhaustedError(
        absl::StrCat("the read of version ", query_.version.value(),
                     " or newer was ended: too many old versions were held")));
  }
  SendNext();
}

void PullCall::EndRead() {
  context_->counters.Add(&ExchangeCounters::pulls_ended);
  ended_ = true;
  LetGo();
}

void PullCall::LetGo() {
  if (!read_) return;
  context_->reading.erase(read_->id);
  context_->shard->EndRead(read_->id);
  read_.reset();
}

void PullCall::Finish(const absl::Status& status) {
  finished_ = true;
  writer_.Finish(ToGrpcStatus(status), on_finished_.Begin());
}

void PullCall::OnDone(bool ok) {
  Unpark();
  LetGo();
  if (!finished_) context_->counters.Add(&ExchangeCounters::pulls_cancelled);
}

}  // namespace sluice

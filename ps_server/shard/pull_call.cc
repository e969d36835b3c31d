// A pull is in one of five states, and leaves each exactly once:
//
//   asking     its caller may pull, its request is on the way: refused when
//              that takes too long
//   parked     its version is not there: it is in `parked`, with an alarm.
//              Retry after each decision; NOT_YET when the alarm rings
//   sending    it has a read and is in `reading`. EndRead when too many old
//              versions are held; given up when the peer takes nothing
//   told       the caller reads the chunks in the shard's memory: it has its
//              read until the caller's side is closed
//   finished   its status is on its way; it holds neither read nor place
//
// Alarms that are cancelled ring as well, later: each handler looks whether the
// call is still in the state that the alarm was set for.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/exchange_error.h"
#include "common/rpc/deadline.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"
#include "proto/exchange.pb.h"
#include "ps_server/shard/exchange_calls.h"
#include "third_party/spdlog.h"

namespace sluice {
namespace {

// A parked call is answered NOT_YET when this share of its time is over: early
// enough for the answer to arrive, late enough that repeats are rare.
constexpr double kShareOfDeadline = 0.75;
// What one message tells of: some milliseconds of copying, and a few bytes for
// each slot, of which a message has room for many more.
constexpr int64_t kMostToldFloats = 16 << 20;
constexpr int64_t kMostSlots = 4096;

}  // namespace

void PullCall::Listen(ExchangeContext* context) {
  auto* call = new PullCall(context);
  call->call_.AsyncNotifyWhenDone(call->on_done_.address());
  context->service.Accept(kPullNumber, &call->call_, &call->stream_,
                          context->queue.get(), call->on_call_.Begin());
}

PullCall::PullCall(ExchangeContext* context)
    : context_(context), stream_(&call_) {
  ++context_->calls;
}

PullCall::~PullCall() {
  LetGo();
  context_->CallGone();
}

void PullCall::OnCall(bool ok) {
  if (!ok) return;  // The server is shutting down.
  on_done_.Begin();
  if (!context_->stopping) Listen(context_);
  auto place = context_->admission.Admit(call_, Rpc::kPull);
  if (!place.ok()) return Refuse(place.status());
  place_ = *std::move(place);
  context_->watch.Begin(this);
  stream_.Read(&request_, on_request_.Begin());
}

void PullCall::OnRequest(bool ok) {
  context_->watch.End(this);
  if (finished_) return;  // It has come too late.
  place_.Took(static_cast<int64_t>(request_.Length()));
  const absl::Status status =
      ok ? Parse()
         : absl::InvalidArgumentError("the pull came without a request");
  if (!status.ok()) return Refuse(status);
  // Who is told where chunks lie is read from until its side is closed.
  if (link_ == nullptr) place_.EndReading();
  Answer();
}

absl::Status PullCall::Parse() {
  proto::PullRequest request;
  SLUICE_RETURN_IF_ERROR(DecodeMessage(request_, &request));
  request_.Clear();
  type_ = static_cast<FloatType>(request.type());
  if (!IsFloatType(type_)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the pull's type is ", request.type(),
                     ", expected a FloatType: FP32, BF16 or FP16"));
  }
  if (request.link() != 0 && type_ == FloatType::kFp32 &&
      context_->links != nullptr) {
    link_ = context_->links->Find(request.link(), place_.caller().key);
  }
  query_ = {Generation(request.generation()), Version(request.version()),
            request.exact()};
  // Members' parts begin and end where their pushes do.
  const ChunkGrid& grid = context_->shard->staging().grid();
  rest_ = {request.offset(),
           request.end() == 0 ? grid.floats() : request.end()};
  const int first = grid.ChunkAt(rest_.begin);
  const bool ends =
      rest_.end == grid.floats() || grid.ChunkAt(rest_.end) > first;
  if (first < 0 || !ends) {
    return absl::InvalidArgumentError(
        absl::StrCat("the pull is of floats ", rest_.begin, " to ", rest_.end,
                     ", expected the begins of chunks of ", grid.chunk_floats(),
                     grid.parts() > 1 ? " or of members' parts" : "",
                     ", or the end, ", grid.floats()));
  }
  const bool begins_part =
      first == 0 || grid.PartOf(first) != grid.PartOf(first - 1);
  if (begins_part || request.exact()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the pull begins at ", rest_.begin, " of at least version ",
                   request.version(), ", expected 0",
                   grid.parts() > 1 ? " or the begin of a member's part" : "",
                   ", or exactly one version"));
}

void PullCall::Answer() {
  auto read = context_->shard->Pull(query_);
  if (!read.ok()) {
    Unpark();
    return Refuse(read.status());
  }
  if (!read->has_value()) return Park();
  Unpark();
  read_ = *std::move(read);
  context_->reading.emplace(read_->id, this);
  if (link_ != nullptr) stream_.Read(&request_, on_closed_.Begin());
  SendNext();
}

void PullCall::Retry() { Answer(); }

void PullCall::Park() {
  if (!context_->parked.insert(this).second) return;
  context_->counters.Add(&ExchangeCounters::pulls_parked);
  alarm_.emplace();
  alarm_->Set(context_->queue.get(), FromNow(ParkTime()), on_alarm_.Begin());
}

void PullCall::Unpark() {
  if (context_->parked.erase(this) > 0) alarm_->Cancel();
}

absl::Duration PullCall::ParkTime() const {
  return std::clamp(TimeLeft(call_) * kShareOfDeadline, absl::ZeroDuration(),
                    context_->longest_park());
}

void PullCall::OnAlarm(bool ok) {
  if (context_->parked.erase(this) == 0) return;  // Unparked meanwhile.
  context_->counters.Add(&ExchangeCounters::pulls_not_yet);
  Finish(WithReason(
      proto::ExchangeError::NOT_YET,
      absl::UnavailableError(absl::StrCat(
          "version ", query_.version.value(), " was asked for, the newest is ",
          context_->shard->version().value()))));
}

// FP32 is sent from where it lies: the chunk's reference goes to gRPC, which
// drops it when it has sent it. All who pull the chunk share its checksum.
ChunkData PullCall::DataOf(ParameterRange part) const {
  Shard& shard = *context_->shard;
  const auto chunk = static_cast<int>(part.begin / shard.grid().chunk_floats());
  shard.Make(chunk);
  const ChunkRef held = read_->snapshot->chunks[chunk];
  const auto floats = absl::MakeConstSpan(
      held.data() + (part.begin - shard.grid().begin(chunk)), part.size());
  if (type_ == FloatType::kFp32) {
    const bool whole = part.size() == shard.grid().size(chunk);
    return InPlace(floats,
                   whole ? held.Checksum(part.size()) : ChunkChecksum(floats),
                   [held] {});
  }
  const int64_t begin = shard.range().begin + part.begin;
  return CopyOf(shard.wire_format(), type_, {begin, begin + part.size()},
                floats);
}

ParameterRange PullCall::NextPart() const {
  const int64_t chunk_floats = context_->shard->grid().chunk_floats();
  return {rest_.begin,
          std::min((rest_.begin / chunk_floats + 1) * chunk_floats, rest_.end)};
}

std::vector<SlotState> PullCall::TakeSlots() {
  const ChunkGrid& grid = context_->shard->grid();
  const auto most = static_cast<size_t>(std::clamp<int64_t>(
      kMostToldFloats / grid.chunk_floats(), 1, kMostSlots));
  std::vector<SlotState> slots;
  while (link_ != nullptr && rest_.size() > 0 && slots.size() < most) {
    // A member's part may begin within a chunk; then its floats are sent.
    const int chunk = grid.ChunkAt(rest_.begin);
    if (chunk < 0) break;
    const auto slot = read_->snapshot->chunks[chunk].slot();
    if (!slot.has_value()) break;
    context_->shard->Make(chunk);
    slots.push_back(*slot);
    rest_.begin = NextPart().end;
  }
  return slots;
}

void PullCall::SendNext() {
  PullChunkHeader header = {read_->snapshot->version, rest_.begin, type_};
  const int64_t before = rest_.begin;
  header.slots = TakeSlots();
  ChunkData data;
  if (header.slots.empty()) {
    const ParameterRange part = NextPart();
    rest_.begin = part.end;
    data = DataOf(part);
    place_.Gave(static_cast<int64_t>(data.bytes.size()));
    context_->counters.Add(&ExchangeCounters::pull_bytes, data.bytes.size());
  } else {
    const int64_t bytes =
        (rest_.begin - before) * static_cast<int64_t>(sizeof(float));
    context_->counters.Add(&ExchangeCounters::pull_bytes, bytes);
    context_->counters.Add(&ExchangeCounters::shared_bytes, bytes);
  }
  const grpc::ByteBuffer message = EncodePullChunk(header, std::move(data));
  if (rest_.size() > 0 || link_ != nullptr) {
    context_->watch.Begin(this);
    sending_ = true;
    stream_.Write(message, on_sent_.Begin());
    return;
  }
  LetGo();
  finished_ = true;
  context_->counters.Add(&ExchangeCounters::pulls_served);
  stream_.WriteAndFinish(message, grpc::WriteOptions(), grpc::Status::OK,
                         on_finished_.Begin());
}

// The caller says nothing behind its request; it has read all that it was told
// of, or is gone.
void PullCall::OnClosed(bool ok) {
  closed_ = true;
  if (!sending_) FinishTold();
}

void PullCall::OnStalled(absl::Duration silent) {
  if (!read_ && !ended_) {
    return Refuse(absl::DeadlineExceededError(absl::StrCat(
        "the pull has said nothing for ", absl::FormatDuration(silent))));
  }
  context_->counters.Add(&ExchangeCounters::pulls_stalled);
  spdlog::warn("event=pull_stalled peer={} version={} seconds={:.0f}",
               call_.peer(), query_.version.value(),
               absl::ToDoubleSeconds(silent));
  LetGo();
  finished_ = true;
  // The write under way ends with it; its status cannot be said any more.
  call_.TryCancel();
}

void PullCall::OnSent(bool ok) {
  sending_ = false;
  // The client is gone, which OnDone counts, or has been given up.
  if (!ok || (!read_ && !ended_)) return LetGo();
  if (ended_) return FinishEnded();
  if (rest_.size() > 0) return SendNext();
  if (closed_) FinishTold();
}

void PullCall::FinishTold() {
  if (!read_) return;
  context_->counters.Add(&ExchangeCounters::pulls_served);
  LetGo();
  Finish(absl::OkStatus());
}

void PullCall::FinishEnded() {
  Finish(absl::ResourceExhaustedError(
      absl::StrCat("the read of version ", query_.version.value(),
                   " or newer was ended: too many old versions were held")));
}

void PullCall::EndRead() {
  context_->counters.Add(&ExchangeCounters::pulls_ended);
  ended_ = true;
  LetGo();
  if (!sending_) return FinishEnded();
  context_->watch.Begin(this);  // A chunk is still under way.
}

void PullCall::LetGo() {
  if (!read_) return;
  context_->watch.End(this);
  context_->reading.erase(read_->id);
  context_->shard->EndRead(read_->id);
  read_.reset();
}

void PullCall::Refuse(const absl::Status& status) {
  context_->counters.Add(&ExchangeCounters::pulls_refused);
  Finish(status);
}

void PullCall::Finish(const absl::Status& status) {
  context_->watch.End(this);
  finished_ = true;
  stream_.Finish(ToGrpcStatus(status), on_finished_.Begin());
}

void PullCall::OnDone(bool ok) {
  Unpark();
  LetGo();
  context_->watch.End(this);
  if (!finished_) context_->counters.Add(&ExchangeCounters::pulls_cancelled);
}

}  // namespace sluice

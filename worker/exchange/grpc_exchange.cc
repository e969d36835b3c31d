// Two pulls exist side by side: `pull_` brings what a task computes on,
// `prefetch_` what the next one probably will, each into memory of its own.
// BeginPull takes the prefetch where it is of the same weights in the same
// memory, and otherwise ends it only if it would write into that memory. So at
// most one of the two fills a given array, and `pulling_` is the one that the
// trainer waits for.
//
// Pushes have no such twin: one gradient is made at a time, and a task waits
// until it is staged.
#include "worker/exchange/grpc_exchange.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/rpc/completion_tag.h"
#include "common/rpc/deadline.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"
#include "common/wire/chunk_codec.h"
#include "proto/exchange.pb.h"
#include "spdlog/spdlog.h"
#include "worker/exchange/chunk_feed.h"

namespace sluice {

namespace {

// How often whoever waits for a connection says for which, and looks whether
// it still is to.
constexpr absl::Duration kSayEvery = absl::Seconds(2);
constexpr absl::Duration kLookEvery = absl::Milliseconds(100);

// Of those shards that hold some of the vector.
std::vector<std::string> Names(const ParameterLayout& layout,
                               const std::vector<std::string>& addresses) {
  std::vector<std::string> names;
  for (const ShardSlice& slice : layout.slices()) {
    const int64_t shard = slice.shard.value();
    SLUICE_CHECK(shard < static_cast<int64_t>(addresses.size()));
    names.push_back(absl::StrCat("shard ", shard, " at ", addresses[shard]));
  }
  return names;
}

constexpr char kPushMethod[] = "/sluice.proto.Exchange/Push";

// For linking with all shards; the others are sent to.
constexpr absl::Duration kLinkingTime = absl::Seconds(5);
// Of one message that says where they lie: a shard does nothing else while it
// stages them, which takes some milliseconds.
constexpr int64_t kMostSharedFloats = 4 << 20;

}  // namespace

// One attempt to push one shard's slice: its chunks as they become final, then
// the shard's word that all of it is staged. The call opens with the first
// chunk, and has no deadline of its own: it lasts as long as the passes that
// make the gradient, and whoever waits for it cancels one that has stalled. A
// slice of one chunk is a unary call, as in VectorPull. It must stay until
// `calls_` have heard its end.
//
// One operation is under way at a time; whoever starts it, the thread that
// computes or the loop's, has taken the `busy_` mark first and owns the stream
// until it passes the mark on.
//
// Not thread-safe: call from the compute thread.
class GrpcExchange::PushAttempt {
 public:
  PushAttempt(GrpcExchange* exchange, int shard)
      : exchange_(*exchange),
        bytes_(exchange->pushed_bytes_),
        calls_(exchange->push_calls_),
        shard_(shard),
        range_(exchange->layout_.range(ShardId(shard))),
        offset_(exchange->layout_.slices()[shard].offset),
        shared_(SharedOf(*exchange, shard)),
        feed_(range_, exchange->chunk_floats_, offset_) {}

  // Everything of the gradient from float `from` on is final.
  void Offer(int64_t from);
  // Ends the call soon, unless it has ended; `calls_` hear it.
  void Cancel();

 private:
  void OnChunkSent(bool ok);
  void OnReply(bool ok);
  void OnWhole(bool ok);
  void OnStatus(bool ok) { calls_.OnCallEnded(shard_, Outcome()); }

  void SendChunk(ParameterRange chunk);
  // A message with the chunk's floats, or one that says where they lie.
  grpc::ByteBuffer MessageOf(ParameterRange chunk) const;
  // The next chunk to send, or where memory is shared several as one.
  std::optional<ParameterRange> Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void SendWhole(const grpc::ByteBuffer& message);
  void AskStatus() { stream_->Finish(&status_, on_status_.address()); }
  absl::Status Outcome() const;
  // The shard, if it can read what is pushed where it lies.
  static const SharedShard* SharedOf(const GrpcExchange& exchange, int shard);

  // Constant after construction.
  const GrpcExchange& exchange_;
  std::atomic<int64_t>& bytes_;
  CallDriver& calls_;
  const int shard_;
  const ParameterRange range_;
  const int64_t offset_;             // Of its first float in the shard's range.
  const SharedShard* const shared_;  // nullptr: chunks are sent.

  // Of whoever holds the mark.
  grpc::ClientContext context_;
  // One of these two.
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> whole_;
  MethodTag<PushAttempt, &PushAttempt::OnChunkSent> on_chunk_sent_{this};
  MethodTag<PushAttempt, &PushAttempt::OnReply> on_reply_{this};
  MethodTag<PushAttempt, &PushAttempt::OnWhole> on_whole_{this};
  MethodTag<PushAttempt, &PushAttempt::OnStatus> on_status_{this};
  int64_t floats_sent_ = 0;
  grpc::ByteBuffer reply_;
  bool replied_ = false;
  grpc::Status status_;

  absl::Mutex mu_;  // Only that of `calls_` is acquired under it.
  ChunkFeed feed_ ABSL_GUARDED_BY(mu_);
  bool busy_ ABSL_GUARDED_BY(mu_) = false;
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
};

const SharedShard* GrpcExchange::PushAttempt::SharedOf(
    const GrpcExchange& exchange, int shard) {
  const SharedShard* const shared = exchange.shared_[shard].get();
  return shared != nullptr &&
                 exchange.options_.types.push == FloatType::kFp32 &&
                 shared->Find(exchange.pushed_).has_value() && shared->alive()
             ? shared
             : nullptr;
}

void GrpcExchange::PushAttempt::Offer(int64_t from) {
  std::optional<ParameterRange> chunk;
  {
    absl::MutexLock lock(&mu_);
    feed_.MarkFinal(from);
    if (busy_ || cancelled_) return;
    chunk = Take();
    if (!chunk.has_value()) return;
    busy_ = true;
  }
  SendChunk(*chunk);
}

void GrpcExchange::PushAttempt::Cancel() {
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
  calls_.OnCallEnded(shard_, absl::CancelledError("never begun"));
}

void GrpcExchange::PushAttempt::SendChunk(ParameterRange chunk) {
  floats_sent_ += chunk.size();
  calls_.OnProgress(shard_, floats_sent_);
  bytes_ += exchange_.format_.Bytes(exchange_.options_.types.push, chunk);
  const grpc::ByteBuffer message = MessageOf(chunk);
  if (chunk.size() == range_.size()) return SendWhole(message);
  if (stream_ == nullptr) {
    // Opening and first chunk travel together.
    context_.set_initial_metadata_corked(true);
    stream_ = exchange_.stubs_[shard_]->PrepareCall(&context_, kPushMethod,
                                                    exchange_.loop_->queue());
    stream_->StartCall(nullptr);
  }
  if (floats_sent_ == range_.size()) {
    stream_->WriteLast(message, grpc::WriteOptions(), on_chunk_sent_.address());
  } else {
    stream_->Write(message, on_chunk_sent_.address());
  }
}

grpc::ByteBuffer GrpcExchange::PushAttempt::MessageOf(
    ParameterRange chunk) const {
  const FloatType type = exchange_.options_.types.push;
  const auto floats = exchange_.pushed_.subspan(chunk.begin, chunk.size());
  PushChunkHeader header = {.key = exchange_.pushed_key_,
                            .grant = exchange_.pushed_grant_,
                            .offset = offset_ + chunk.begin - range_.begin,
                            .type = type};
  if (shared_ != nullptr) {
    header.shared = shared_->Find(floats);
    return EncodePushChunk(header, {});
  }
  // The transport may hold a message beyond the end of its call, when the
  // gradient's memory already takes the next gradient: hence the copy.
  return EncodePushChunk(header,
                         CopyOf(exchange_.format_, type, chunk, floats));
}

std::optional<ParameterRange> GrpcExchange::PushAttempt::Take() {
  std::optional<ParameterRange> taken = feed_.Take();
  if (shared_ == nullptr || !taken.has_value()) return taken;
  while (taken->size() < kMostSharedFloats) {
    const auto before = feed_.Take();  // They come from the last to the first.
    if (!before.has_value()) break;
    taken->begin = before->begin;
  }
  return taken;
}

void GrpcExchange::PushAttempt::SendWhole(const grpc::ByteBuffer& message) {
  whole_ = exchange_.stubs_[shard_]->PrepareUnaryCall(
      &context_, kPushMethod, message, exchange_.loop_->queue());
  whole_->StartCall();
  whole_->Finish(&reply_, &status_, on_whole_.address());
}

void GrpcExchange::PushAttempt::OnChunkSent(bool ok) {
  if (ok) calls_.OnMoved(shard_);
  // A shard may answer before it has read everything: a repeated push.
  if (!ok || floats_sent_ == range_.size()) {
    return stream_->Read(&reply_, on_reply_.address());
  }
  std::optional<ParameterRange> chunk;
  {
    absl::MutexLock lock(&mu_);
    if (!cancelled_) {
      chunk = Take();
      busy_ = chunk.has_value();
      if (!busy_) {  // Rests until the next Offer.
        calls_.OnRest(shard_);
        return;
      }
    }
  }
  chunk.has_value() ? SendChunk(*chunk) : AskStatus();
}

void GrpcExchange::PushAttempt::OnReply(bool ok) {
  replied_ = ok;
  AskStatus();
}

void GrpcExchange::PushAttempt::OnWhole(bool ok) {
  replied_ = reply_.Valid();
  calls_.OnCallEnded(shard_, Outcome());
}

absl::Status GrpcExchange::PushAttempt::Outcome() const {
  SLUICE_RETURN_IF_ERROR(FromGrpcStatus(status_));
  proto::PushReply reply;
  if (!replied_) return absl::DataLossError("answered a push without a reply");
  SLUICE_RETURN_IF_ERROR(DecodeMessage(reply_, &reply));
  if (reply.staged() == range_.size()) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("staged ", reply.staged(),
                                          " floats, expected ", range_.size()));
}

GrpcExchange::GrpcExchange(const ParameterLayout* layout,
                           std::vector<std::string> addresses, Options options)
    : layout_(*layout),
      options_(std::move(options)),
      chunk_floats_(options_.chunk_bytes / static_cast<int64_t>(sizeof(float))),
      format_(layout->statistics()),
      names_(Names(*layout, addresses)),
      loop_(options_.loop ? options_.loop : std::make_shared<CompletionLoop>()),
      pull_(PullPath(), names_, options_.limits, options_.clock),
      prefetch_(PullPath(), names_, options_.limits, options_.clock),
      push_calls_(names_, options_.limits, options_.clock) {
  const auto credentials = options_.credentials
                               ? options_.credentials
                               : grpc::InsecureChannelCredentials();
  for (const ShardSlice& slice : layout_.slices()) {
    channels_.push_back(
        grpc::CreateCustomChannel(addresses[slice.shard.value()], credentials,
                                  BulkChannelArguments(options_.window)));
    stubs_.push_back(std::make_unique<grpc::GenericStub>(channels_.back()));
  }
  shared_.resize(stubs_.size());
}

void GrpcExchange::ShareMemory(
    const std::vector<const SharedMemory*>& gradients) {
  const absl::Time end = options_.clock->Now() + kLinkingTime;
  for (size_t s = 0; s < channels_.size(); ++s) {
    const absl::Duration left =
        std::max(end - options_.clock->Now(), absl::Milliseconds(1));
    auto shared =
        SharedShard::Link(channels_[s], options_.client, gradients, left);
    if (shared.ok()) {
      shared_[s] = *std::move(shared);
      spdlog::info("event=shares_memory with=\"{}\"", names_[s]);
    } else {
      spdlog::info("event=shares_no_memory with=\"{}\" reason=\"{}\"",
                   names_[s], std::string(shared.status().message()));
    }
  }
}

absl::Status GrpcExchange::AwaitReachable(
    absl::Duration timeout, const std::string& field,
    const std::function<bool()>& stopped) {
  const absl::Time begin = options_.clock->Now();
  absl::Time say = begin + kSayEvery;
  const absl::Cleanup forget = [this] { SetUnconnected(std::nullopt); };
  for (const auto& channel : channels_) channel->GetState(/*connect=*/true);
  for (const auto& channel : channels_) {
    grpc_connectivity_state state;
    while ((state = channel->GetState(/*connect=*/true)) !=
           GRPC_CHANNEL_READY) {
      if (stopped()) return absl::OkStatus();
      const absl::Duration waited = options_.clock->Now() - begin;
      if (waited >= timeout) {
        return absl::UnavailableError(absl::StrCat(
            Unconnected(), ": no connection for ",
            absl::FormatDuration(timeout), " (", field,
            "); its address must be one that can be reached from here"));
      }
      if (begin + waited >= say) {
        say += kSayEvery;
        SetUnconnected(UnreachedShard{Unconnected(), begin});
        spdlog::warn("event=waiting for=\"a connection to {}\" seconds={:.0f}",
                     Unconnected(), absl::ToDoubleSeconds(waited));
      }
      channel->WaitForStateChange(state, FromNow(kLookEvery));
    }
  }
  return absl::OkStatus();
}

std::string GrpcExchange::Unconnected() const {
  std::vector<std::string> names;
  for (size_t s = 0; s < channels_.size(); ++s) {
    if (channels_[s]->GetState(/*connect=*/true) != GRPC_CHANNEL_READY) {
      names.push_back(names_[s]);
    }
  }
  return absl::StrJoin(names, ", ");
}

void GrpcExchange::SetUnconnected(std::optional<UnreachedShard> shards) {
  absl::MutexLock lock(&mu_);
  unconnected_ = std::move(shards);
}

VectorPull::Path GrpcExchange::PullPath() const {
  return {.layout = &layout_,
          .client = options_.client,
          .chunk_floats = chunk_floats_,
          .format = &format_,
          .type = options_.types.pull,
          .stubs = &stubs_,
          .shared = &shared_,
          .queue = loop_->queue()};
}

GrpcExchange::~GrpcExchange() {
  pull_.Abort();
  prefetch_.Abort();
  AbortPush();
}

void GrpcExchange::BeginPull(const PullSpec& spec, absl::Span<float> weights) {
  SLUICE_CHECK(pulling_ == nullptr);
  pull_deadline_ = spec.deadline;
  if (prefetch_.Brings(spec, weights)) {
    pulling_ = &prefetch_;
    return;
  }
  if (prefetch_.Fills(weights)) prefetch_.Abort();
  pull_.Begin(spec, weights);
  pulling_ = &pull_;
}

absl::StatusOr<OrRestarted<int64_t>> GrpcExchange::AwaitPulled(
    int64_t end, const CancelToken& cancel) {
  return pulling_->Await(end, pull_deadline_, cancel);
}

absl::StatusOr<std::vector<Version>> GrpcExchange::FinishPull(
    const CancelToken& cancel) {
  VectorPull& pull = *std::exchange(pulling_, nullptr);
  SLUICE_ASSIGN_OR_RETURN(auto versions, pull.Finish(pull_deadline_, cancel));
  pull_travels_ = pull.travels();
  return versions;
}

void GrpcExchange::AbortPull() {
  if (pulling_ != nullptr) std::exchange(pulling_, nullptr)->Abort();
}

void GrpcExchange::Prefetch(const PullSpec& spec, absl::Span<float> weights) {
  if (!prefetch_.Brings(spec, weights)) prefetch_.Begin(spec, weights);
}

void GrpcExchange::BeginPush(const GradientKey& key, const std::string& grant,
                             absl::Span<const float> gradient) {
  SLUICE_CHECK(pushes_.empty());
  SLUICE_CHECK(static_cast<int64_t>(gradient.size()) == layout_.size());
  pushed_key_ = key;
  pushed_grant_ = grant;
  pushed_ = gradient;
  push_calls_.Begin();
  pushes_.resize(stubs_.size());
  for (int shard = 0; shard < layout_.shards(); ++shard) {
    pushes_[shard] = std::make_unique<PushAttempt>(this, shard);
  }
}

void GrpcExchange::PushFrom(int64_t from) {
  for (const auto& push : pushes_) push->Offer(from);
}

absl::Status GrpcExchange::FinishPush(const CancelToken& cancel) {
  const CallDriver::Hands hands = {
      .repeat =
          [this](int shard) {
            pushes_[shard] = std::make_unique<PushAttempt>(this, shard);
            pushes_[shard]->Offer(0);
          },
      .cancel = [this](int shard) { pushes_[shard]->Cancel(); }};
  // The coordinator bounds a task, and cancels one that takes too long.
  const absl::Status status =
      push_calls_.Drive(absl::InfiniteFuture(), cancel, hands);
  if (status.ok()) push_travels_ = push_calls_.travels();
  AbortPush();
  return status;
}

void GrpcExchange::AbortPush() {
  if (pushes_.empty()) return;
  for (const auto& push : pushes_) push->Cancel();
  push_calls_.Drain();
  pushes_.clear();
}

std::optional<UnreachedShard> GrpcExchange::unreached() const {
  std::optional<UnreachedShard> longest;
  {
    absl::MutexLock lock(&mu_);
    longest = unconnected_;
  }
  for (const auto& shard :
       {pull_.unreached(), prefetch_.unreached(), push_calls_.unreached()}) {
    if (!shard.has_value()) continue;
    if (!longest.has_value() || shard->since < longest->since) longest = shard;
  }
  return longest;
}

void GrpcExchange::Wake() {
  pull_.Wake();
  prefetch_.Wake();
  push_calls_.Wake();
}

}  // namespace sluice

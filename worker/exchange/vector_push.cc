// A push of the flat vector brings each shard its slice, chunk by chunk, the
// last one first, as backward makes the gradient from its end.
//
// Lanes. A shard asks for one chunk of a call after the other, and only what it
// has asked for may be on the way. Over a long way a slice therefore travels on
// several calls, its lanes: whichever is free takes the next chunk, and the
// shard, which knows chunks by their place, does not mind. A lane that finds
// nothing left closes its side. The shard answers each with how much of the
// slice is there; the one that completes it hears all of it.
//
// Chunks 3 to 0 on two lanes:
//
//   From(chunk 2)   lane 0 sends chunk 3, lane 1 sends chunk 2
//   OnSent(0)       nothing is final: lane 0 rests
//   From(0)         lane 0 sends chunk 1
//   OnSent(1)       lane 1 sends chunk 0, the last, which closes its side
//   OnSent(0)       nothing is left: lane 0 closes its side
//   OnReply(1)      3 of 4 chunks, say: chunk 1 is still on its way
//   OnReply(0)      all of it: the slice is staged
#include "worker/exchange/vector_push.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/grant.h"
#include "common/rpc/completion_tag.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"
#include "common/wire/chunk_codec.h"
#include "proto/exchange.pb.h"
#include "worker/exchange/chunk_feed.h"

namespace sluice {
namespace {

constexpr char kMethod[] = "/sluice.proto.Exchange/Push";
// Of one message that says where floats lie: a shard does nothing else while it
// stages them, which takes some milliseconds.
constexpr int64_t kMostSharedFloats = 4 << 20;

}  // namespace

// One call of a slice. One operation is under way at a time; the slice says
// when the next may begin (State). A slice of one chunk is a unary call, as in
// VectorPull.
//
// Not thread-safe: call from whoever made it kBusy.
class VectorPush::Lane {
 public:
  // Under the slice's lock.
  enum class State {
    kUnopened,
    kResting,  // Open, without an operation.
    kBusy,     // Belongs to whoever made it so, until that has passed it on.
    kEnded,
  };

  explicit Lane(Slice* slice) : slice_(*slice) {}

  // Opens the call with the first chunk; closes its side with the `last`.
  void Send(ParameterRange chunk, bool last);
  void Close();
  void AskStatus() { stream_->Finish(&status_, on_status_.address()); }
  // Ends the call soon. From any thread, unless it is kUnopened.
  void Cancel() { context_.TryCancel(); }

  bool closed() const { return closed_; }
  // How it ended, and what the shard says to be there.
  absl::StatusOr<int64_t> Outcome() const;

  State state = State::kUnopened;

 private:
  void OnSent(bool ok);
  void OnReply(bool ok);
  void OnWhole(bool ok);
  void OnStatus(bool ok);
  void ReadReply() { stream_->Read(&reply_, on_reply_.address()); }

  Slice& slice_;
  grpc::ClientContext context_;
  // One of these two.
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> whole_;
  MethodTag<Lane, &Lane::OnSent> on_sent_{this};
  MethodTag<Lane, &Lane::OnReply> on_reply_{this};
  MethodTag<Lane, &Lane::OnWhole> on_whole_{this};
  MethodTag<Lane, &Lane::OnStatus> on_status_{this};
  bool closed_ = false;  // This side.
  grpc::ByteBuffer reply_;
  bool replied_ = false;
  grpc::Status status_;
};

// One attempt to push one shard's slice, until the shard says that all of it is
// staged. It has no deadline of its own: it lasts as long as the passes that
// make the gradient, and whoever waits for it cancels one that has stalled. It
// must stay until `calls_` have heard its end.
//
// Offer and Cancel: from the thread that computes. The others: from the loop's,
// or from these.
class VectorPush::Slice {
 public:
  Slice(VectorPush* push, int shard);

  // Everything of the gradient from float `from` on is final.
  void Offer(int64_t from);
  // Ends the calls soon, unless they have ended; `calls_` hear it.
  void Cancel();

 private:
  friend class Lane;

  // What a lane does next: brings a chunk, or closes its side.
  struct Step {
    Lane* lane;
    std::optional<ParameterRange> chunk;
    bool last = false;
  };

  // A lane has sent its chunk.
  void OnSent(Lane* lane);
  void OnEnded(Lane* lane);

  // Gives lanes something to do, until they have or nothing is final.
  void Feed();
  std::optional<Step> NextStep();
  // The next chunk to send, or where memory is shared several as one.
  std::optional<ParameterRange> Take() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // A lane that could bring a chunk: rather one that is open; or nullptr.
  Lane* FreeLane() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  std::vector<Lane*> With(Lane::State state) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // The same, which now belong to the caller.
  std::vector<Lane*> TakeResting() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // What became of all, once a lane has ended; nullopt: that is still open.
  std::optional<absl::Status> OutcomeWith(const Lane& ended)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Has lanes end that have something under way, or nothing.
  static void GiveUp(const std::vector<Lane*>& busy,
                     const std::vector<Lane*>& resting);
  // A message with the chunk's floats, or one that says where they lie.
  grpc::ByteBuffer MessageOf(ParameterRange chunk) const;
  // The shard, if it can read what is pushed where it lies.
  static const SharedShard* SharedOf(const VectorPush& push, int shard);

  // Constant after construction.
  const VectorPath& path_;
  const Gradient& gradient_;
  std::atomic<int64_t>& bytes_;
  CallDriver& calls_;
  const int shard_;
  const ParameterRange range_;
  const int64_t offset_;             // Of its first float in the shard's range.
  const SharedShard* const shared_;  // nullptr: chunks are sent.
  std::vector<std::unique_ptr<Lane>> lanes_;

  absl::Mutex mu_;  // Only that of `calls_` is acquired under it.
  ChunkFeed feed_ ABSL_GUARDED_BY(mu_);
  int64_t floats_sent_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t staged_ ABSL_GUARDED_BY(mu_) = 0;  // The most that a reply said.
  // Set once no lane is to take another chunk: all is staged, or why not.
  std::optional<absl::Status> outcome_ ABSL_GUARDED_BY(mu_);
  bool cancelled_ ABSL_GUARDED_BY(mu_) = false;
};

void VectorPush::Lane::Send(ParameterRange chunk, bool last) {
  const grpc::ByteBuffer message = slice_.MessageOf(chunk);
  grpc::GenericStub& stub = *(*slice_.path_.stubs)[slice_.shard_];
  if (chunk.size() == slice_.range_.size()) {
    closed_ = true;
    whole_ = stub.PrepareUnaryCall(&context_, kMethod, message,
                                   slice_.path_.loop->queue(slice_.shard_));
    whole_->StartCall();
    return whole_->Finish(&reply_, &status_, on_whole_.address());
  }
  if (stream_ == nullptr) {
    // Opening and first chunk travel together.
    context_.set_initial_metadata_corked(true);
    stream_ = stub.PrepareCall(&context_, kMethod,
                               slice_.path_.loop->queue(slice_.shard_));
    stream_->StartCall(nullptr);
  }
  closed_ = last;
  if (last) {
    stream_->WriteLast(message, grpc::WriteOptions(), on_sent_.address());
  } else {
    stream_->Write(message, on_sent_.address());
  }
}

void VectorPush::Lane::Close() {
  closed_ = true;
  stream_->WritesDone(on_sent_.address());
}

void VectorPush::Lane::OnSent(bool ok) {
  if (ok) slice_.calls_.OnMoved(slice_.shard_);
  // A shard may answer before it has read everything: a repeated push.
  if (!ok || closed_) return ReadReply();
  slice_.OnSent(this);
}

void VectorPush::Lane::OnReply(bool ok) {
  replied_ = ok;
  AskStatus();
}

void VectorPush::Lane::OnWhole(bool ok) {
  replied_ = reply_.Valid();
  slice_.OnEnded(this);
}

void VectorPush::Lane::OnStatus(bool ok) { slice_.OnEnded(this); }

absl::StatusOr<int64_t> VectorPush::Lane::Outcome() const {
  SLUICE_RETURN_IF_ERROR(FromGrpcStatus(status_));
  proto::PushReply reply;
  if (!replied_) return absl::DataLossError("answered a push without a reply");
  SLUICE_RETURN_IF_ERROR(DecodeMessage(reply_, &reply));
  return reply.staged();
}

VectorPush::Slice::Slice(VectorPush* push, int shard)
    : path_(push->path_),
      gradient_(push->gradient_),
      bytes_(push->bytes_),
      calls_(push->calls_),
      shard_(shard),
      range_(path_.layout->range(ShardId(shard))),
      offset_(path_.layout->slices()[shard].offset),
      shared_(SharedOf(*push, shard)),
      feed_(range_, path_.chunk_floats, offset_) {
  // Where memory is shared little travels. And where the gradient has a turn,
  // each call may have to wait for it, with a chunk that the shard holds.
  const bool alone = shared_ != nullptr || TurnOf(gradient_.grant).has_value();
  const int lanes = alone ? 1 : push->lanes_;
  for (int i = 0; i < lanes; ++i) {
    lanes_.push_back(std::make_unique<Lane>(this));
  }
}

const SharedShard* VectorPush::Slice::SharedOf(const VectorPush& push,
                                               int shard) {
  const SharedShard* const shared = (*push.path_.shared)[shard].get();
  return shared != nullptr && push.path_.type == FloatType::kFp32 &&
                 shared->Find(push.gradient_.floats).has_value() &&
                 shared->alive()
             ? shared
             : nullptr;
}

void VectorPush::Slice::Offer(int64_t from) {
  {
    absl::MutexLock lock(&mu_);
    feed_.MarkFinal(from);
  }
  Feed();
}

void VectorPush::Slice::Feed() {
  while (const std::optional<Step> step = NextStep()) {
    if (step->chunk.has_value()) {
      step->lane->Send(*step->chunk, step->last);
    } else {
      step->lane->Close();
    }
  }
}

std::optional<VectorPush::Slice::Step> VectorPush::Slice::NextStep() {
  absl::MutexLock lock(&mu_);
  if (outcome_.has_value()) return std::nullopt;
  Lane* const lane = FreeLane();
  if (lane == nullptr) return std::nullopt;
  if (const auto chunk = Take()) {
    lane->state = Lane::State::kBusy;
    floats_sent_ += chunk->size();
    bytes_ += path_.format->Bytes(path_.type, *chunk);
    calls_.OnProgress(shard_, floats_sent_);
    return Step{lane, chunk, feed_.exhausted()};
  }
  if (!feed_.exhausted() || lane->state != Lane::State::kResting) {
    return std::nullopt;
  }
  lane->state = Lane::State::kBusy;
  return Step{lane, std::nullopt};
}

std::optional<ParameterRange> VectorPush::Slice::Take() {
  std::optional<ParameterRange> taken = feed_.Take();
  if (shared_ == nullptr || !taken.has_value()) return taken;
  while (taken->size() < kMostSharedFloats) {
    const auto before = feed_.Take();  // They come from the last to the first.
    if (!before.has_value()) break;
    taken->begin = before->begin;
  }
  return taken;
}

VectorPush::Lane* VectorPush::Slice::FreeLane() {
  for (const Lane::State state :
       {Lane::State::kResting, Lane::State::kUnopened}) {
    const std::vector<Lane*> free = With(state);
    if (!free.empty()) return free.front();
  }
  return nullptr;
}

std::vector<VectorPush::Lane*> VectorPush::Slice::With(
    Lane::State state) const {
  std::vector<Lane*> with;
  for (const auto& lane : lanes_) {
    if (lane->state == state) with.push_back(lane.get());
  }
  return with;
}

std::vector<VectorPush::Lane*> VectorPush::Slice::TakeResting() {
  std::vector<Lane*> resting = With(Lane::State::kResting);
  for (Lane* const lane : resting) lane->state = Lane::State::kBusy;
  return resting;
}

grpc::ByteBuffer VectorPush::Slice::MessageOf(ParameterRange chunk) const {
  const auto floats = gradient_.floats.subspan(chunk.begin, chunk.size());
  PushChunkHeader header = {.key = gradient_.key,
                            .grant = gradient_.grant,
                            .offset = offset_ + chunk.begin - range_.begin,
                            .type = path_.type};
  if (chunk.begin == 0) header.ready = gradient_.ready;
  if (shared_ != nullptr) {
    header.shared = shared_->Find(floats);
    return EncodePushChunk(header, {});
  }
  // One of several chunks is copied, which is faster: the kernel then reads it
  // from the cache (docs/benchmarks.md, "One chunk").
  if (path_.type == FloatType::kFp32 && chunk.size() == range_.size()) {
    return EncodePushChunk(header, InPlace(floats, ChunkChecksum(floats),
                                           path_.on_the_way->Begin()));
  }
  return EncodePushChunk(header,
                         CopyOf(*path_.format, path_.type, chunk, floats));
}

void VectorPush::Slice::OnSent(Lane* lane) {
  std::optional<absl::Status> outcome;
  {
    absl::MutexLock lock(&mu_);
    outcome = outcome_;
    if (!outcome.has_value()) lane->state = Lane::State::kResting;
  }
  if (outcome.has_value()) {
    return outcome->ok() ? lane->Close() : lane->AskStatus();
  }
  Feed();
  absl::MutexLock lock(&mu_);
  if (With(Lane::State::kBusy).empty()) calls_.OnRest(shard_);
}

void VectorPush::Slice::OnEnded(Lane* lane) {
  std::vector<Lane*> resting, busy;
  absl::Status outcome;
  {
    absl::MutexLock lock(&mu_);
    lane->state = Lane::State::kEnded;
    if (!outcome_.has_value()) outcome_ = OutcomeWith(*lane);
    if (!outcome_.has_value()) return;  // The others go on.
    outcome = *outcome_;
    busy = With(Lane::State::kBusy);
    resting = TakeResting();
  }
  if (busy.empty() && resting.empty()) {
    calls_.OnCallEnded(shard_, outcome);
  } else if (outcome.ok()) {
    // What they bring besides is there, and the shard says so to each.
    for (Lane* const other : resting) other->Close();
  } else {
    GiveUp(busy, resting);
  }
}

std::optional<absl::Status> VectorPush::Slice::OutcomeWith(const Lane& ended) {
  const absl::StatusOr<int64_t> staged = ended.Outcome();
  const bool last = feed_.exhausted() && With(Lane::State::kBusy).empty() &&
                    With(Lane::State::kResting).empty();
  if (!staged.ok()) {
    // Where the Ready travels with it, the gradient may be applied, and its
    // task over, before the shard has answered every lane.
    const bool over = absl::IsAborted(staged.status());
    if (over && ended.closed() && !last) return std::nullopt;
    return staged.status();
  }
  staged_ = std::max(staged_, *staged);
  if (staged_ == range_.size()) return absl::OkStatus();
  if (ended.closed() && !last) return std::nullopt;
  return absl::DataLossError(
      absl::StrCat("staged ", staged_, " floats, expected ", range_.size()));
}

void VectorPush::Slice::GiveUp(const std::vector<Lane*>& busy,
                               const std::vector<Lane*>& resting) {
  for (Lane* const lane : busy) lane->Cancel();
  for (Lane* const lane : resting) {
    lane->Cancel();
    lane->AskStatus();
  }
}

void VectorPush::Slice::Cancel() {
  std::vector<Lane*> resting, busy;
  {
    absl::MutexLock lock(&mu_);
    if (std::exchange(cancelled_, true)) return;
    if (!outcome_.has_value()) outcome_ = absl::CancelledError("given up");
    if (With(Lane::State::kUnopened).size() == lanes_.size()) {
      return calls_.OnCallEnded(shard_, *outcome_);
    }
    busy = With(Lane::State::kBusy);
    resting = TakeResting();
  }
  GiveUp(busy, resting);
}

VectorPush::VectorPush(VectorPath path, int lanes,
                       std::vector<std::string> names, CallLimits limits,
                       Clock* clock)
    : path_(std::move(path)),
      lanes_(lanes),
      calls_(std::move(names), limits, clock, path_.loop) {}

VectorPush::~VectorPush() { Abort(); }

void VectorPush::Begin(Gradient gradient) {
  SLUICE_CHECK(slices_.empty());
  SLUICE_CHECK(static_cast<int64_t>(gradient.floats.size()) ==
               path_.layout->size());
  gradient_ = std::move(gradient);
  calls_.Begin();
  for (int shard = 0; shard < path_.layout->shards(); ++shard) {
    slices_.push_back(std::make_unique<Slice>(this, shard));
  }
}

void VectorPush::From(int64_t from) {
  for (const auto& slice : slices_) slice->Offer(from);
}

void VectorPush::Last(const proto::Ready& ready) {
  gradient_.ready = ready.SerializeAsString();
  From(0);
}

absl::Status VectorPush::Finish(const CancelToken& cancel) {
  const CallDriver::Hands hands = {
      .repeat =
          [this](int shard) {
            slices_[shard] = std::make_unique<Slice>(this, shard);
            slices_[shard]->Offer(0);
          },
      .cancel = [this](int shard) { slices_[shard]->Cancel(); }};
  // The coordinator bounds a task, and cancels one that takes too long.
  return calls_.Drive(absl::InfiniteFuture(), cancel, hands);
}

void VectorPush::Abort() {
  if (slices_.empty()) return;
  for (const auto& slice : slices_) slice->Cancel();
  calls_.Drain();
  slices_.clear();
}

}  // namespace sluice

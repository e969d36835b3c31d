// A pull of the flat vector is a call to each shard, and each call fills its
// slice from the first float on. What is there of the vector is therefore a
// prefix: whole slices, and the part that has come of the next.
//
//   * A slice is of one version (PullAssembly). A call that breaks goes on
//     where it broke off, for exactly that version.
//   * A slice that is all here is delivered, whatever becomes of its call. What
//     is left of that, to tell the shard so and to hear its status, goes on
//     beside the task (Attempt::Deliver).
//   * Where the shard no longer has that version, the slice begins anew. That
//     concerns whoever waits only if floats of this slice were counted in what
//     Await returned: then, and only then, Await says Restarted.
//
// Two shards of 10 floats, "version 5 or newer":
//
//   Await(4)    12: all of shard 0 (version 5), two floats of shard 1
//   -- shard 1's call breaks; it has gone on to version 7 and keeps no 5 --
//   Await(15)   Restarted: two floats that were counted have come again, as 7
//   Await(4)    17, say: what is there by now
//   Finish      versions 5 and 7, when all is there
#include "worker/exchange/vector_pull.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/rpc/completion_tag.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"
#include "common/wire/chunk_codec.h"
#include "proto/exchange.pb.h"

namespace sluice {
namespace {

constexpr char kMethod[] = "/sluice.proto.Exchange/Pull";

}  // namespace

// One attempt to pull one shard's slice, or what is missing of it: request,
// chunks, status. Each chunk is checked and copied straight to its place. A
// slice of one chunk is asked for as a unary call, which is the same on the
// wire but one operation instead of four: the loop wakes once, when the answer
// is here.
//
// The call has no deadline of its own: it lasts as long as chunks come, and
// whoever waits for it cancels one that has stalled. It must stay until
// `calls_` have heard its end, and one that has delivered until it is over.
//
// Runs where the loop is served; Start or StartOnLoop, once, from the thread
// that computes; Cancel from any, before the call has begun, too.
//
// Thread-compatible.
class VectorPull::Attempt {
 public:
  Attempt(VectorPull* pull, int shard)
      : path_(pull->path_),
        shard_(shard),
        range_(path_.layout->range(ShardId(shard))),
        offset_(path_.layout->slices()[shard].offset),
        into_(pull->weights_.subspan(range_.begin, range_.size())),
        assembly_(pull->assemblies_[shard]),
        bytes_(pull->bytes_),
        calls_(pull->calls_) {}

  void Start(Generation generation);
  // The same, where the loop is served.
  void StartOnLoop(Generation generation);
  // Ends the call soon, unless it has ended.
  void Cancel() { context_.TryCancel(); }

  // All of the slice is here; the call may still have to end. For whoever knows
  // that `calls_` have heard so.
  bool delivered() const { return delivered_; }
  // One that has delivered does nothing more. From any thread.
  bool over() const {
    absl::MutexLock lock(&over_mu_);
    return over_;
  }
  void AwaitOver() {
    absl::MutexLock lock(&over_mu_);
    path_.loop->Await(&over_mu_, absl::Condition(&over_),
                      absl::InfiniteDuration());
  }

 private:
  void OnRequestSent(bool ok) { ok ? ReadChunk() : AskStatus(); }
  void OnChunk(bool ok);
  // The same of chunks that lie in the shard's memory.
  void OnToldChunks(bool ok);
  void OnClosed(bool ok) { AskStatus(); }
  void OnWhole(bool ok);
  void OnStatus(bool ok) { End(); }

  void ReadChunk() {
    stream_->Read(&chunk_, shared_ == nullptr ? on_chunk_.address()
                                              : on_told_chunks_.address());
  }
  void AskStatus() { stream_->Finish(&status_, on_status_.address()); }
  bool all_here() const { return assembly_.received() == range_.size(); }
  // `calls_` hear that the call has ended well. What is left of it touches
  // nothing but itself.
  void Deliver();
  // Nothing is left of the call.
  void End();
  // Checks a chunk and brings its floats to their place.
  absl::Status Copy(const grpc::ByteBuffer& message);
  // The same of each that the header says the place of.
  absl::Status CopySlots(const PullChunkHeader& header);
  // What is expected next.
  ParameterRange NextRange() const {
    const int64_t at = assembly_.received();
    return {range_.begin + at, range_.begin + ChunkEnd(at)};
  }
  void Progressed();
  absl::Status Outcome();
  // Where the chunk ends that float `at` of the range lies in.
  int64_t ChunkEnd(int64_t at) const {
    const int64_t chunk = (offset_ + at) / path_.chunk_floats;
    return std::min((chunk + 1) * path_.chunk_floats - offset_, range_.size());
  }

  // Constant after Start, but for what they refer to.
  const VectorPath& path_;
  const int shard_;
  const ParameterRange range_;
  const int64_t offset_;          // Of its first float in the shard's range.
  const absl::Span<float> into_;  // The range's floats.
  PullAssembly& assembly_;        // The chunks that are here.
  std::atomic<int64_t>& bytes_;
  CallDriver& calls_;
  // The shard, if its weights are read where they lie.
  const SharedShard* shared_ = nullptr;

  // Of the loop's thread after Start.
  grpc::ClientContext context_;
  // One of these two.
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  std::unique_ptr<grpc::GenericClientAsyncResponseReader> whole_;
  MethodTag<Attempt, &Attempt::OnRequestSent> on_request_sent_{this};
  MethodTag<Attempt, &Attempt::OnChunk> on_chunk_{this};
  MethodTag<Attempt, &Attempt::OnToldChunks> on_told_chunks_{this};
  MethodTag<Attempt, &Attempt::OnClosed> on_closed_{this};
  MethodTag<Attempt, &Attempt::OnWhole> on_whole_{this};
  MethodTag<Attempt, &Attempt::OnStatus> on_status_{this};
  grpc::ByteBuffer chunk_;
  absl::Status problem_;  // What is wrong with the chunks.
  grpc::Status status_;   // What the shard says.
  bool delivered_ = false;

  // Leaf lock: nothing else is acquired under it.
  mutable absl::Mutex over_mu_;
  bool over_ ABSL_GUARDED_BY(over_mu_) = false;
};

void VectorPull::Attempt::StartOnLoop(Generation generation) {
  RunOn(path_.loop->queue(shard_), [this, generation] { Start(generation); });
}

void VectorPull::Attempt::Start(Generation generation) {
  const PullAssembly::Question question = assembly_.Ask();
  proto::PullRequest request;
  request.set_generation(generation.value());
  request.set_version(question.version.value());
  request.set_exact(question.exact);
  request.set_offset(offset_ + question.offset);
  if (path_.layout->is_part()) request.set_end(offset_ + range_.size());
  request.set_type(static_cast<proto::FloatType>(path_.type));
  grpc::GenericStub* const stub = (*path_.stubs)[shard_].get();
  calls_.OnAsked(shard_);
  const bool whole = ChunkEnd(0) == range_.size();  // In one chunk.
  const SharedShard* const shared = (*path_.shared)[shard_].get();
  if (shared != nullptr && path_.type == FloatType::kFp32 &&
      (!whole || range_.size() >= kWindowFloats) && shared->alive()) {
    shared_ = shared;
    request.set_link(shared->link());
  } else if (whole) {
    whole_ = stub->PrepareUnaryCall(&context_, kMethod, EncodeMessage(request),
                                    path_.loop->queue(shard_));
    whole_->StartCall();
    whole_->Finish(&chunk_, &status_, on_whole_.address());
    return;
  }
  // Opening and request travel together.
  context_.set_initial_metadata_corked(true);
  stream_ = stub->PrepareCall(&context_, kMethod, path_.loop->queue(shard_));
  stream_->StartCall(nullptr);
  const grpc::ByteBuffer message = EncodeMessage(request);
  if (shared_ == nullptr) {
    stream_->WriteLast(message, grpc::WriteOptions(),
                       on_request_sent_.address());
  } else {
    stream_->Write(message, on_request_sent_.address());
  }
}

// What the shard has told of it holds until this side is closed.
void VectorPull::Attempt::OnToldChunks(bool ok) {
  if (!ok) return AskStatus();
  problem_ = Copy(std::exchange(chunk_, {}));
  if (!problem_.ok()) {
    context_.TryCancel();
    return AskStatus();
  }
  if (!all_here()) return ReadChunk();
  Deliver();
  stream_->WritesDone(on_closed_.address());
}

void VectorPull::Attempt::OnChunk(bool ok) {
  if (!ok || delivered_ || !problem_.ok()) return AskStatus();
  // The next chunk may travel while this one is copied: its sender gets no
  // window for it before it is asked for.
  const grpc::ByteBuffer message = std::exchange(chunk_, {});
  ReadChunk();
  problem_ = Copy(message);
  if (!problem_.ok()) return context_.TryCancel();  // The read ends soon.
  if (all_here()) Deliver();
}

void VectorPull::Attempt::OnWhole(bool ok) {
  if (chunk_.Valid()) problem_ = Copy(chunk_);
  End();
}

void VectorPull::Attempt::Deliver() {
  delivered_ = true;
  calls_.OnCallEnded(shard_, absl::OkStatus());
}

void VectorPull::Attempt::End() {
  if (!delivered_) return calls_.OnCallEnded(shard_, Outcome());
  absl::MutexLock lock(&over_mu_);
  over_ = true;
}

absl::Status VectorPull::Attempt::Copy(const grpc::ByteBuffer& message) {
  SLUICE_ASSIGN_OR_RETURN(const auto chunk, DecodePullChunk(message));
  if (chunk.header.type != path_.type) {
    return absl::DataLossError(absl::StrCat("a chunk is ",
                                            NameOf(chunk.header.type),
                                            ", expected ", NameOf(path_.type)));
  }
  if (!chunk.header.slots.empty()) return CopySlots(chunk.header);
  const ParameterRange range = NextRange();
  const int64_t at = range.begin - range_.begin;
  const int64_t expected = path_.format->Bytes(path_.type, range);
  if (static_cast<int64_t>(chunk.payload.bytes()) != expected) {
    return absl::DataLossError(absl::StrCat("a chunk at ", at, " has ",
                                            chunk.payload.bytes(),
                                            " bytes, expected ", expected));
  }
  SLUICE_RETURN_IF_ERROR(assembly_.Accept(
      chunk.header.version, chunk.header.offset - offset_, range.size()));
  bytes_ += expected;
  SLUICE_RETURN_IF_ERROR(path_.format->Decode(path_.type, range, chunk.payload,
                                              into_.subspan(at, range.size())));
  Progressed();
  return absl::OkStatus();
}

absl::Status VectorPull::Attempt::CopySlots(const PullChunkHeader& header) {
  if (shared_ == nullptr) {
    return absl::DataLossError("a chunk came as slots, expected its data");
  }
  int64_t offset = header.offset - offset_;
  for (const SlotState& slot : header.slots) {
    const ParameterRange range = NextRange();
    if (range.size() == 0) {
      return absl::DataLossError("more slots came than there are chunks");
    }
    // What is counted as received stays: so it is copied first.
    SLUICE_RETURN_IF_ERROR(shared_->Copy(
        slot, into_.subspan(range.begin - range_.begin, range.size())));
    SLUICE_RETURN_IF_ERROR(
        assembly_.Accept(header.version, offset, range.size()));
    offset += range.size();
    bytes_ += range.size() * static_cast<int64_t>(sizeof(float));
    Progressed();
  }
  return absl::OkStatus();
}

void VectorPull::Attempt::Progressed() {
  calls_.OnMoved(shard_);
  calls_.OnProgress(shard_, assembly_.received());
}

absl::Status VectorPull::Attempt::Outcome() {
  SLUICE_RETURN_IF_ERROR(problem_);
  return assembly_.End(FromGrpcStatus(status_));
}

VectorPull::VectorPull(VectorPath path, std::vector<std::string> names,
                       CallLimits limits, Clock* clock)
    : path_(std::move(path)),
      hands_(MakeHands()),
      calls_(std::move(names), limits, clock, path_.loop) {}

VectorPull::~VectorPull() {
  Abort();
  for (const auto& attempt : ending_) attempt->Cancel();
  for (const auto& attempt : ending_) attempt->AwaitOver();
}

CallDriver::Hands VectorPull::MakeHands() {
  return {.repeat = [this](int shard) { Repeat(shard); },
          .cancel = [this](int shard) { attempts_[shard]->Cancel(); }};
}

void VectorPull::Begin(const PullSpec& spec, absl::Span<float> weights) {
  BeginWithoutCalls(spec, weights);
  for (int shard = 0; shard < path_.layout->shards(); ++shard) Start(shard);
}

void VectorPull::BeginAhead(const PullSpec& spec, absl::Span<float> weights) {
  using ServedBy = CompletionLoop::ServedBy;
  if (path_.loop->served_by() == ServedBy::kWaiter) return Begin(spec, weights);
  BeginWithoutCalls(spec, weights);
  for (int shard = 0; shard < path_.layout->shards(); ++shard) {
    attempts_[shard] = std::make_unique<Attempt>(this, shard);
    attempts_[shard]->StartOnLoop(spec.generation);
  }
}

void VectorPull::BeginWithoutCalls(const PullSpec& spec,
                                   absl::Span<float> weights) {
  SLUICE_CHECK(static_cast<int64_t>(weights.size()) == path_.layout->size());
  Abort();
  begun_ = spec;
  weights_ = weights;
  given_ = 0;
  broken_ = false;
  calls_.Begin();
  attempts_.resize(path_.stubs->size());
  assemblies_.clear();
  for (int shard = 0; shard < path_.layout->shards(); ++shard) {
    assemblies_.emplace_back(path_.layout->range(ShardId(shard)).size(),
                             spec.version, spec.exact);
  }
}

void VectorPull::Start(int shard) {
  attempts_[shard] = std::make_unique<Attempt>(this, shard);
  attempts_[shard]->Start(begun_->generation);
}

void VectorPull::Repeat(int shard) {
  if (assemblies_[shard].BeginAnew()) {
    calls_.BeginsAnew(shard);
    broken_ |= given_ > path_.layout->range(ShardId(shard)).begin;
  }
  Start(shard);
}

int64_t VectorPull::There() const {
  const std::vector<int64_t> progress = calls_.progress();
  int64_t there = 0;
  for (int shard = 0; shard < path_.layout->shards(); ++shard) {
    there += progress[shard];
    if (progress[shard] < path_.layout->range(ShardId(shard)).size()) break;
  }
  return there;
}

absl::StatusOr<OrRestarted<int64_t>> VectorPull::Await(
    int64_t end, absl::Time deadline, const CancelToken& cancel) {
  std::vector<int64_t> enough;
  for (int shard = 0; shard < path_.layout->shards(); ++shard) {
    const ParameterRange range = path_.layout->range(ShardId(shard));
    enough.push_back(std::clamp<int64_t>(end - range.begin, 0, range.size()));
  }
  SLUICE_RETURN_IF_ERROR(calls_.DriveTo(enough, deadline, cancel, hands_));
  if (std::exchange(broken_, false)) {
    given_ = 0;
    return Restarted{};
  }
  return given_ = There();
}

absl::StatusOr<std::vector<Version>> VectorPull::Finish(
    absl::Time deadline, const CancelToken& cancel) {
  const absl::Status status = calls_.Drive(deadline, cancel, hands_);
  std::vector<Version> versions;
  if (status.ok()) {
    for (const PullAssembly& assembly : assemblies_) {
      versions.push_back(assembly.version());
    }
  }
  if (!status.ok()) {
    Abort();
    return status;
  }
  begun_.reset();
  LetGo();
  return versions;
}

void VectorPull::Abort() {
  begun_.reset();
  if (attempts_.empty()) return;
  for (const auto& attempt : attempts_) attempt->Cancel();
  LetGo();
}

void VectorPull::LetGo() {
  calls_.Drain();
  // Of the pull before, which have had the time of this one to end.
  for (const auto& attempt : ending_) attempt->Cancel();
  for (auto& attempt : attempts_) {
    if (attempt->delivered()) ending_.push_back(std::move(attempt));
  }
  attempts_.clear();
  std::erase_if(ending_, [](const auto& attempt) { return attempt->over(); });
}

}  // namespace sluice

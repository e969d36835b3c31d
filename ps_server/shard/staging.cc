// Where pushed gradients wait for the coordinator's decision.
//
// What holds:
//   * A slice is staged when every chunk of its grid has been taken once. A
//     chunk that comes again is not looked at, so a push may be repeated.
//   * Only a task that the coordinator granted room for is taken, from the
//     worker that it was granted to (its grant is a function of the key, of the
//     worker's certificate and of a secret of this generation), so the slices
//     here are bounded by what was granted.
//   * Turns (SYNC with less room than an update has gradients): whoever has one
//     of the next `max_gradients` turns may come in. So the gradient that is to
//     be folded next never waits for one that is folded after it, on no shard.
//   * What has ended stays ended: `ended_` remembers the last task that ended
//     in each life of a worker, and later chunks of that task and of earlier
//     ones are refused. But a push of a slice that is staged is told so again:
//     a later task of that life may have ended while this one's update is still
//     to come.
//   * A chunk with a NaN or an infinity never counts as taken.
//
// Three chunks, worker 0, task 7:
//
//   Stage(7, chunk 2)    false: one of three is here
//   Stage(7, chunk 1)    false
//   -- the connection breaks; the worker repeats the whole push --
//   Stage(7, chunk 2)    false: a duplicate, counted and passed over
//   Stage(7, chunk 1)    false
//   Stage(7, chunk 0)    true: all is here (of a member's part, where several
//                        push one slice), and the push is answered
//   Find(7)              its floats, for the Commit that names it
//   End(7)               its memory is free for another slice
//   Stage(7, chunk 2)    kAborted: task 7 has ended
#include "ps_server/shard/staging.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/grant.h"
#include "common/status_macros.h"
#include "kernels/optimizer_kernels.h"  // FirstNonFinite

namespace sluice {
namespace {

// 64 names of what the user's program logs take 6 KB
// (common/telemetry/logged_values.h).
constexpr size_t kMostReadyBytes = 32 << 10;

}  // namespace

Staging::Staging(const ParameterLayout* layout, ParameterRange range,
                 ChunkGrid grid, FloatType type, int max_gradients)
    : layout_(layout),
      range_(range),
      grid_(grid),
      format_(layout->statistics()),
      type_(type),
      max_gradients_(max_gradients) {}

void Staging::Reset(Generation generation, const std::string& secret) {
  generation_ = generation;
  grants_.emplace(secret);
  turn_ = 0;
  entries_.clear();
  ended_.clear();
}

bool Staging::Admits(const PushChunkHeader& header,
                     absl::string_view holder) const {
  const std::optional<int64_t> turn = TurnOf(header.grant);
  if (!turn.has_value() || entries_.contains(header.key) ||
      !CheckKey(header, holder).ok()) {
    return true;
  }
  return *turn < turn_ + max_gradients_ && held() < max_gradients_;
}

absl::StatusOr<bool> Staging::Stage(const PushChunkHeader& header,
                                    const Payload& payload,
                                    absl::string_view holder) {
  SLUICE_RETURN_IF_ERROR(CheckKey(header, holder));
  SLUICE_ASSIGN_OR_RETURN(const int chunk, CheckPlace(header, payload));
  SLUICE_ASSIGN_OR_RETURN(Entry * entry, FindOrMake(header.key));
  int& missing = entry->missing[grid_.PartOf(chunk)];
  if (entry->here[chunk]) {
    ++duplicate_chunks_;
    if (entry->missing_in_all > 0) entry->Bring(header.ready);
    return missing == 0;
  }
  const auto floats = absl::MakeSpan(entry->floats.get() + grid_.begin(chunk),
                                     grid_.size(chunk));
  size_t looked_at = 0;
  int64_t wrong = -1;
  const auto look = [&](size_t there) {
    if (wrong >= 0) return;
    const int64_t at =
        kernels::FirstNonFinite(floats.subspan(looked_at, there - looked_at));
    if (at >= 0) wrong = static_cast<int64_t>(looked_at) + at;
    looked_at = there;
  };
  SLUICE_RETURN_IF_ERROR(
      format_.Decode(type_, RangeOf(chunk), payload, floats, look));
  if (wrong >= 0) return NotFinite(header.key, chunk, wrong, floats[wrong]);
  entry->here[chunk] = true;
  --entry->missing_in_all;
  entry->Bring(header.ready);
  return --missing == 0;
}

absl::Status Staging::CheckKey(const PushChunkHeader& header,
                               absl::string_view holder) const {
  const GradientKey& key = header.key;
  if (key.generation != generation_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "gradient ", key.ToString(), " is of generation ",
        key.generation.value(), ", expected ", generation_.value()));
  }
  if (!grants_->Made(header.grant, key, holder)) {
    return absl::PermissionDeniedError(
        absl::StrCat("gradient ", key.ToString(),
                     " has no grant: its bytes are wrong, or were given to the "
                     "holder of another certificate"));
  }
  const auto entry = entries_.find(key);
  if (entry != entries_.end() && entry->second.missing_in_all == 0) {
    return absl::OkStatus();
  }
  const auto ended = ended_.find(Life(key.worker, key.incarnation));
  if (ended != ended_.end() && key.sequence <= ended->second) {
    return absl::AbortedError(
        absl::StrCat("task ", key.ToString(), " has ended"));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> Staging::CheckPlace(const PushChunkHeader& header,
                                        const Payload& payload) const {
  if (header.type != type_) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradient ", header.key.ToString(), " is ",
                     NameOf(header.type), ", expected ", NameOf(type_)));
  }
  const int chunk = grid_.ChunkAt(header.offset);
  if (chunk < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gradient ", header.key.ToString(), ": offset is ", header.offset,
        ", expected a multiple of ", grid_.chunk_floats(), " below ",
        grid_.floats(),
        grid_.parts() > 1 ? ", or where a member's part begins" : ""));
  }
  const int64_t expected = format_.Bytes(type_, RangeOf(chunk));
  if (static_cast<int64_t>(payload.bytes()) != expected) {
    return absl::InvalidArgumentError(absl::StrCat(
        "gradient ", header.key.ToString(), ": chunk at ", header.offset,
        " has ", payload.bytes(), " bytes, expected ", expected));
  }
  if (header.ready.size() > kMostReadyBytes) {
    return absl::DataLossError(absl::StrCat(
        "gradient ", header.key.ToString(), ": its Ready has ",
        header.ready.size(), " bytes, expected at most ", kMostReadyBytes));
  }
  return chunk;
}

ParameterRange Staging::RangeOf(int chunk) const {
  const int64_t begin = range_.begin + grid_.begin(chunk);
  return {begin, begin + grid_.size(chunk)};
}

absl::Status Staging::NotFinite(const GradientKey& key, int chunk, int64_t at,
                                float value) const {
  const int64_t offset = range_.begin + grid_.begin(chunk) + at;
  const TensorSpec& tensor = layout_->TensorAt(offset);
  return absl::InvalidArgumentError(
      absl::StrCat("gradient ", key.ToString(), " is ", value, " in tensor ",
                   tensor.name, " at position ", offset - tensor.offset));
}

absl::StatusOr<Staging::Entry*> Staging::FindOrMake(const GradientKey& key) {
  const auto found = entries_.find(key);
  if (found != entries_.end()) return &found->second;
  if (held() >= max_gradients_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("gradient ", key.ToString(), " finds ", held(),
                     " gradients here, at most ", max_gradients_, " may be"));
  }
  Entry entry;
  if (free_.empty()) {
    entry.floats = MakeAlignedFloats(grid_.floats());
  } else {
    entry.floats = std::move(free_.back());
    free_.pop_back();
  }
  entry.here.resize(grid_.count());
  entry.missing.resize(grid_.parts());
  for (int i = 0; i < grid_.count(); ++i) ++entry.missing[grid_.PartOf(i)];
  entry.missing_in_all = grid_.count();
  return &entries_.emplace(key, std::move(entry)).first->second;
}

absl::StatusOr<const float*> Staging::Find(const GradientKey& key) const {
  const auto entry = entries_.find(key);
  const int missing =
      entry == entries_.end() ? grid_.count() : entry->second.missing_in_all;
  if (missing == 0) return entry->second.floats.get();
  return absl::NotFoundError(
      absl::StrCat("gradient ", key.ToString(), " is not staged: ", missing,
                   " of ", grid_.count(), " chunks are missing"));
}

std::string Staging::TakeReady(const GradientKey& key) {
  Entry& entry = entries_.at(key);
  return entry.missing_in_all > 0 ? "" : std::exchange(entry.ready, "");
}

absl::StatusOr<int64_t> Staging::FloatsHere(const GradientKey& key,
                                            int64_t offset) const {
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) {
    return absl::AbortedError(
        absl::StrCat("task ", key.ToString(), " has ended"));
  }
  const int part = grid_.PartOf(grid_.ChunkAt(offset));
  int64_t floats = 0;
  for (int i = 0; i < grid_.count(); ++i) {
    if (entry->second.here[i] && grid_.PartOf(i) == part) {
      floats += grid_.size(i);
    }
  }
  return floats;
}

void Staging::End(const GradientKey& key) {
  Sequence& ended = ended_[Life(key.worker, key.incarnation)];
  ended = std::max(ended, key.sequence);
  const auto entry = entries_.find(key);
  if (entry == entries_.end()) return;
  free_.push_back(std::move(entry->second.floats));
  entries_.erase(entry);
}

}  // namespace sluice

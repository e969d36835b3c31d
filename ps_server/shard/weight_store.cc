// A version is a table of counted chunks; readers hold the table.
//
// What holds:
//   * The chunks of a table that somebody holds never change, once they are
//     written (which may be after Publish). An update writes a chunk in place
//     only when the table that it builds is alone with it; otherwise it writes
//     into another chunk, from the pool.
//   * Between Close and Publish nobody begins to read: the closed version may
//     already be half overwritten.
//   * At most `max_held` old versions are held, and pinned ones: Close ends the
//     reads of the oldest others. Their holders let go soon after, so a chunk
//     may be in use for a moment longer.
//
// Two chunks, `max_held` 1. Reader r1 takes version 0, {a0, b0}:
//
//   Close              version 0 becomes old; one old version may be held
//   Prepare(0), (1)    r1 holds a0 and b0, so version 1 is {a1, b1}
//   Publish            r2 takes version 1
//   Close              two old versions would be held: r1 is ended, and lets go
//   Prepare(0), (1)    r2 holds a1 and b1; the pool has a0 and b0, so version 2
//                      is {a0, b0}
//   Publish            had nobody read version 1, it would be {a1, b1}, written
//                      in place
#include "ps_server/shard/weight_store.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice {

WeightStore::WeightStore(ChunkGrid grid, int max_held,
                         std::shared_ptr<SharedChunks> shared)
    : grid_(grid),
      max_held_(max_held),
      pool_(grid.size(0), std::move(shared)) {}

void WeightStore::Initialize(Version version, absl::Span<const float> weights) {
  SLUICE_CHECK(static_cast<int64_t>(weights.size()) == grid_.floats());
  holds_.clear();
  reads_.clear();
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->version = version;
  for (int i = 0; i < grid_.count(); ++i) {
    snapshot->chunks.push_back(pool_.Take());
    std::copy_n(weights.begin() + grid_.begin(i), grid_.size(i),
                snapshot->chunks.back().mutable_data());
  }
  current_ = std::move(snapshot);
}

WeightStore::Read WeightStore::Begin(Hold* hold,
                                     std::shared_ptr<const Snapshot> snapshot) {
  hold->snapshot = std::move(snapshot);
  hold->reads.push_back(++last_read_);
  reads_.emplace(last_read_, hold->snapshot->version);
  return {last_read_, hold->snapshot};
}

WeightStore::Read WeightStore::BeginRead() {
  return Begin(&holds_[version()], current_);
}

std::optional<WeightStore::Read> WeightStore::BeginRead(Version version) {
  if (version == this->version()) return BeginRead();
  const auto hold = holds_.find(version);
  if (hold == holds_.end() || hold->second.pins == 0) return std::nullopt;
  return Begin(&hold->second, hold->second.snapshot);
}

void WeightStore::EndRead(ReadId id) {
  const auto read = reads_.find(id);
  if (read == reads_.end()) return;
  const Version version = read->second;
  reads_.erase(read);
  std::vector<ReadId>& reads = holds_[version].reads;
  reads.erase(std::find(reads.begin(), reads.end(), id));
  DropIfFree(version);
}

void WeightStore::DropIfFree(Version version) {
  const auto hold = holds_.find(version);
  if (hold->second.reads.empty() && hold->second.pins == 0) holds_.erase(hold);
}

std::vector<ReadId> WeightStore::Close() {
  std::vector<ReadId> ended;
  for (auto it = holds_.begin();
       holds_.size() > max_held_ && it != holds_.end();) {
    if (it->second.pins > 0) {
      ++it;
      continue;
    }
    for (const ReadId id : it->second.reads) {
      reads_.erase(id);
      ended.push_back(id);
    }
    it = holds_.erase(it);
  }
  next_ = current_->chunks;
  // Where nobody holds the closed version, its own references must not keep
  // the chunks from being written in place.
  if (current_.use_count() == 1) {
    auto emptied = std::make_shared<Snapshot>();
    emptied->version = version();
    current_ = std::move(emptied);
  }
  return ended;
}

WeightStore::Piece WeightStore::Prepare(int chunk) {
  ChunkRef& slot = next_[chunk];
  const bool had_checksum = slot.has_checksum();
  if (slot.IsUnique()) {
    float* const to = slot.mutable_data();
    return {slot, to, had_checksum};
  }
  ++chunks_copied_;
  ChunkRef from = pool_.Replace(&slot);
  return {std::move(from), slot.mutable_data(), had_checksum};
}

void WeightStore::Publish() {
  auto snapshot = std::make_shared<Snapshot>();
  snapshot->version = version() + 1;
  snapshot->chunks = std::exchange(next_, {});
  current_ = std::move(snapshot);
}

void WeightStore::ComputeChecksum(int chunk) const {
  current_->chunks[chunk].Checksum(grid_.size(chunk));
}

absl::Status WeightStore::Pin(Version version) {
  if (version != this->version()) {
    return absl::NotFoundError(absl::StrCat(
        "version ", version.value(), " is to be pinned, but the newest is ",
        this->version().value()));
  }
  Hold& hold = holds_[version];
  hold.snapshot = current_;
  ++hold.pins;
  return absl::OkStatus();
}

absl::Status WeightStore::Release(Version version) {
  const auto hold = holds_.find(version);
  if (hold == holds_.end() || hold->second.pins == 0) {
    return absl::NotFoundError(absl::StrCat(
        "version ", version.value(), " is to be released, but is not pinned"));
  }
  --hold->second.pins;
  DropIfFree(version);
  return absl::OkStatus();
}

int WeightStore::held() const {
  return static_cast<int>(holds_.size() - holds_.count(version()));
}

}  // namespace sluice

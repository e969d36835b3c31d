#ifndef SLUICE_PS_SERVER_SHARD_CHUNK_GRID_H_
#define SLUICE_PS_SERVER_SHARD_CHUNK_GRID_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace sluice {

// How a shard's range is cut into chunks: at the multiples of `chunk_floats`.
// An empty range has one empty chunk, so that every pull and every push has
// something to say.
//
// What is pushed is cut at `cuts` as well, where what one member of a worker
// makes ends and what the next one makes begins: those are the grid's parts.
// For 10 floats, chunks of 4 and a cut at 5:
//
//   chunks   [0, 4) [4, 5) [5, 8) [8, 10)
//   parts    0      0      1      1
//
// All offsets and sizes are in floats.
//
// Immutable, therefore thread-safe.
class ChunkGrid {
 public:
  // Of `cuts`, in order, those inside the range count.
  // REQUIRES: floats >= 0, chunk_floats >= 1.
  ChunkGrid(int64_t floats, int64_t chunk_floats,
            std::vector<int64_t> cuts = {})
      : floats_(floats), chunk_floats_(chunk_floats), cuts_(std::move(cuts)) {
    std::erase_if(cuts_,
                  [floats](int64_t cut) { return cut <= 0 || cut >= floats; });
    for (int64_t at = 0; at < floats; at += chunk_floats) begins_.push_back(at);
    begins_.insert(begins_.end(), cuts_.begin(), cuts_.end());
    std::sort(begins_.begin(), begins_.end());
    begins_.erase(std::unique(begins_.begin(), begins_.end()), begins_.end());
    if (begins_.empty()) begins_.push_back(0);
  }

  int64_t floats() const { return floats_; }
  int64_t chunk_floats() const { return chunk_floats_; }
  int count() const { return static_cast<int>(begins_.size()); }
  int64_t begin(int chunk) const { return begins_[chunk]; }
  int64_t size(int chunk) const {
    return (chunk + 1 < count() ? begins_[chunk + 1] : floats_) -
           begins_[chunk];
  }
  // The chunk that begins at `offset`; -1 when none does.
  int ChunkAt(int64_t offset) const {
    const auto at = std::lower_bound(begins_.begin(), begins_.end(), offset);
    return at == begins_.end() || *at != offset
               ? -1
               : static_cast<int>(at - begins_.begin());
  }

  int parts() const { return static_cast<int>(cuts_.size()) + 1; }
  int PartOf(int chunk) const {
    return static_cast<int>(
        std::upper_bound(cuts_.begin(), cuts_.end(), begins_[chunk]) -
        cuts_.begin());
  }
  int64_t PartFloats(int part) const {
    return (part + 1 < parts() ? cuts_[part] : floats_) -
           (part == 0 ? 0 : cuts_[part - 1]);
  }

 private:
  int64_t floats_;
  int64_t chunk_floats_;
  std::vector<int64_t> cuts_;
  std::vector<int64_t> begins_;  // Of the chunks.
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_CHUNK_GRID_H_

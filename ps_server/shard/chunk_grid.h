#ifndef SLUICE_PS_SERVER_SHARD_CHUNK_GRID_H_
#define SLUICE_PS_SERVER_SHARD_CHUNK_GRID_H_

#include <algorithm>
#include <cstdint>

namespace sluice {

// How a shard's range is cut into chunks: all are `chunk_floats` long but the
// last, which takes what is left. An empty range has one empty chunk, so that
// every pull and every push has something to say.
//
// All offsets and sizes are in floats.
//
// Immutable, therefore thread-safe.
class ChunkGrid {
 public:
  // REQUIRES: floats >= 0, chunk_floats >= 1.
  ChunkGrid(int64_t floats, int64_t chunk_floats)
      : floats_(floats), chunk_floats_(chunk_floats) {}

  int64_t floats() const { return floats_; }
  int64_t chunk_floats() const { return chunk_floats_; }
  int count() const {
    return static_cast<int>(
        std::max<int64_t>(1, (floats_ + chunk_floats_ - 1) / chunk_floats_));
  }
  int64_t begin(int chunk) const { return chunk * chunk_floats_; }
  int64_t size(int chunk) const {
    return std::min(chunk_floats_, floats_ - begin(chunk));
  }
  // The chunk that begins at `offset`; -1 when none does.
  int ChunkAt(int64_t offset) const {
    if (offset < 0 || offset % chunk_floats_ != 0) return -1;
    const int64_t chunk = offset / chunk_floats_;
    return chunk < count() ? static_cast<int>(chunk) : -1;
  }

 private:
  int64_t floats_;
  int64_t chunk_floats_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_CHUNK_GRID_H_

#ifndef SLUICE_WORKER_EXCHANGE_CHUNK_FEED_H_
#define SLUICE_WORKER_EXCHANGE_CHUNK_FEED_H_

#include <algorithm>
#include <cstdint>
#include <optional>

#include "common/parameter_layout.h"

namespace sluice {

// Which chunks of one shard's range may be sent, while backward makes the
// gradient from its end to its beginning. Chunks end at the multiples of
// chunk_floats, counted from the begin of the shard's own range; a chunk is
// sent once all of it is final, the last one first.
//
// Not thread-safe: call under the owner's lock.
class ChunkFeed {
 public:
  // `range` begins `offset` floats behind the shard's own.
  // REQUIRES: chunk_floats >= 1, offset >= 0.
  ChunkFeed(ParameterRange range, int64_t chunk_floats, int64_t offset = 0)
      : range_(range),
        chunk_floats_(chunk_floats),
        lead_(offset % chunk_floats),
        chunks_((lead_ + range.size() + chunk_floats - 1) / chunk_floats),
        final_from_(chunks_),
        next_(chunks_) {}

  // Everything of the flat vector from float `from` on is final.
  void MarkFinal(int64_t from) {
    const int64_t in_range =
        std::clamp<int64_t>(from - range_.begin, 0, range_.size());
    const int64_t chunk =
        in_range == 0 ? 0
                      : (lead_ + in_range + chunk_floats_ - 1) / chunk_floats_;
    final_from_ = std::min(final_from_, chunk);
  }

  // The next chunk to send, in floats of the flat vector; nullopt while none
  // is complete, or after the last.
  std::optional<ParameterRange> Take() {
    if (next_ == final_from_) return std::nullopt;
    --next_;
    const int64_t begin = range_.begin + next_ * chunk_floats_ - lead_;
    return ParameterRange{std::max(begin, range_.begin),
                          std::min(begin + chunk_floats_, range_.end)};
  }

  // Every chunk has been taken.
  bool exhausted() const { return next_ == 0; }

 private:
  // Constant after construction.
  ParameterRange range_;
  int64_t chunk_floats_;
  int64_t lead_;  // Of the first chunk, floats before the range.
  int64_t chunks_;

  // Chunks from this one on are final; chunks from `next_` on were taken.
  int64_t final_from_;
  int64_t next_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_CHUNK_FEED_H_

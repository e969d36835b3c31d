#ifndef SLUICE_PS_SERVER_SHARD_CHUNK_POOL_H_
#define SLUICE_PS_SERVER_SHARD_CHUNK_POOL_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "ps_server/shard/chunk.h"

namespace sluice {

// Chunks of one size, each used again when nobody holds it any more: so many
// are made as were ever held at once, on whatever thread they were let go.
// Freed and made anew they would take more than that, since the allocator gives
// a thread only what lies in that thread's part of the heap.
//
// Not thread-safe: call from the exchange thread.
class ChunkPool {
 public:
  explicit ChunkPool(int64_t floats) : floats_(floats) {}

  // One that nobody else holds, with undefined contents.
  ChunkRef Take() {
    for (ChunkRef& chunk : retired_) {
      if (!chunk.IsUnique()) continue;
      std::swap(chunk, retired_.back());
      ChunkRef taken = std::move(retired_.back());
      retired_.pop_back();
      return taken;
    }
    return ChunkRef::Make(floats_);
  }

  // Makes room at `slot`: the chunk there, which may be held still, is replaced
  // by one that is not. Returns the one before.
  ChunkRef Replace(ChunkRef* slot) {
    retired_.push_back(std::exchange(*slot, Take()));
    return retired_.back();
  }

 private:
  const int64_t floats_;
  std::vector<ChunkRef> retired_;  // Some are held, others not.
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_CHUNK_POOL_H_

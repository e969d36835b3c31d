#ifndef SLUICE_PS_SERVER_SHARD_CHUNK_H_
#define SLUICE_PS_SERVER_SHARD_CHUNK_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "ps_server/shard/aligned_floats.h"

namespace sluice {

// A counted reference to a chunk's floats. The network holds one for every
// chunk it is still sending, and drops it on a thread of its own; all else
// happens on the exchange thread. Hence the count is atomic, and whoever finds
// itself alone (IsUnique) sees everything the others did before they let go.
//
// Different references to a chunk may be used on different threads.
//
// Thread-compatible.
class ChunkRef {
 public:
  ChunkRef() = default;
  // New floats, with undefined contents.
  static ChunkRef Make(int64_t floats) { return ChunkRef(new Chunk(floats)); }

  ChunkRef(const ChunkRef& other) : chunk_(other.chunk_) {
    if (chunk_) chunk_->references.fetch_add(1, std::memory_order_relaxed);
  }
  ChunkRef(ChunkRef&& other) noexcept
      : chunk_(std::exchange(other.chunk_, nullptr)) {}
  ChunkRef& operator=(ChunkRef other) {
    std::swap(chunk_, other.chunk_);
    return *this;
  }
  ~ChunkRef() {
    if (chunk_ &&
        chunk_->references.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete chunk_;
    }
  }

  const float* data() const { return chunk_->floats.get(); }
  // REQUIRES: IsUnique().
  float* mutable_data() const { return chunk_->floats.get(); }
  bool IsUnique() const {
    return chunk_->references.load(std::memory_order_acquire) == 1;
  }

 private:
  struct Chunk {
    explicit Chunk(int64_t count) : floats(MakeAlignedFloats(count)) {}
    std::atomic<int> references{1};
    AlignedFloats floats;
  };

  explicit ChunkRef(Chunk* chunk) : chunk_(chunk) {}

  Chunk* chunk_ = nullptr;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_CHUNK_H_

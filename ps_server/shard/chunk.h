#ifndef SLUICE_PS_SERVER_SHARD_CHUNK_H_
#define SLUICE_PS_SERVER_SHARD_CHUNK_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "common/wire/payload.h"
#include "common/wire/shared_slots.h"
#include "ps_server/shard/shared_chunks.h"

namespace sluice {

struct FreeAligned {
  void operator()(float* floats) const {
    ::operator delete[](floats, std::align_val_t(64));
  }
};

// Floats that begin on a cache line; what they hold at first is undefined.
using AlignedFloats = std::unique_ptr<float[], FreeAligned>;

inline AlignedFloats MakeAlignedFloats(int64_t count) {
  return AlignedFloats(static_cast<float*>(
      ::operator new[](count * sizeof(float), std::align_val_t(64))));
}

// A counted reference to a chunk's floats. The network holds one for every
// chunk it is still sending, and a checkpoint's writer for every chunk that it
// has yet to write; both let go on threads of their own. All else happens on
// the exchange thread. Hence the count is atomic, and whoever finds itself
// alone (IsUnique) sees everything the others did before they let go.
//
// Different references to a chunk may be used on different threads.
//
// Thread-compatible.
class ChunkRef {
 public:
  ChunkRef() = default;
  // New floats, with undefined contents, in a slot of `shared` where there is
  // one left.
  static ChunkRef Make(int64_t floats,
                       const std::shared_ptr<SharedChunks>& shared = nullptr) {
    const int slot = shared == nullptr ? -1 : shared->Take();
    return ChunkRef(slot < 0 ? new Chunk(floats) : new Chunk(shared, slot));
  }

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

  const float* data() const { return chunk_->floats; }
  // XXH3-64 of the first `floats` of it, all that it has: computed when it is
  // first asked for. Call from the exchange thread.
  uint64_t Checksum(int64_t floats) const {
    if (!chunk_->checksum.has_value()) {
      chunk_->checksum = ChunkChecksum(absl::MakeConstSpan(data(), floats));
    }
    return *chunk_->checksum;
  }
  // Whether it has been computed since the floats were written.
  bool has_checksum() const { return chunk_->checksum.has_value(); }
  // To be written from now on. REQUIRES: IsUnique().
  float* mutable_data() const {
    chunk_->checksum.reset();
    if (chunk_->shared != nullptr) chunk_->shared->BeginWrite(chunk_->slot);
    return chunk_->floats;
  }
  // Where others find the floats as they are now; nullopt: nowhere.
  std::optional<SlotState> slot() const {
    if (chunk_->shared == nullptr) return std::nullopt;
    return SlotState{chunk_->slot, chunk_->shared->Writes(chunk_->slot)};
  }
  bool IsUnique() const {
    return chunk_->references.load(std::memory_order_acquire) == 1;
  }

 private:
  struct Chunk {
    explicit Chunk(int64_t count)
        : own(MakeAlignedFloats(count)), floats(own.get()) {}
    Chunk(std::shared_ptr<SharedChunks> memory, int number)
        : shared(std::move(memory)),
          slot(number),
          floats(shared->floats(number)) {}
    ~Chunk() {
      if (shared != nullptr) shared->Return(slot);
    }
    std::atomic<int> references{1};
    // One of these two.
    const AlignedFloats own;
    const std::shared_ptr<SharedChunks> shared;
    const int slot = -1;
    float* const floats;
    std::optional<uint64_t> checksum;
  };

  explicit ChunkRef(Chunk* chunk) : chunk_(chunk) {}

  Chunk* chunk_ = nullptr;
};

// Chunks of one size, each used again when nobody holds it any more: so many
// are made as were ever held at once, on whatever thread they were let go.
// Freed and made anew they would take more than that, since the allocator gives
// a thread only what lies in that thread's part of the heap.
//
// Not thread-safe: call from the exchange thread.
class ChunkPool {
 public:
  // `shared`: where they are made while it has slots, of so many floats.
  explicit ChunkPool(int64_t floats,
                     std::shared_ptr<SharedChunks> shared = nullptr)
      : floats_(floats), shared_(std::move(shared)) {}

  // One that nobody else holds, with undefined contents.
  ChunkRef Take() {
    for (ChunkRef& chunk : retired_) {
      if (!chunk.IsUnique()) continue;
      std::swap(chunk, retired_.back());
      ChunkRef taken = std::move(retired_.back());
      retired_.pop_back();
      return taken;
    }
    return ChunkRef::Make(floats_, shared_);
  }

  // Makes room at `slot`: the chunk there, which may be held still, is replaced
  // by one that is not. Returns the one before.
  ChunkRef Replace(ChunkRef* slot) {
    retired_.push_back(std::exchange(*slot, Take()));
    return retired_.back();
  }

 private:
  const int64_t floats_;
  const std::shared_ptr<SharedChunks> shared_;
  std::vector<ChunkRef> retired_;  // Some are held, others not.
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_CHUNK_H_

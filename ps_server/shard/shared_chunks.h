#ifndef SLUICE_PS_SERVER_SHARD_SHARED_CHUNKS_H_
#define SLUICE_PS_SERVER_SHARD_SHARED_CHUNKS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "common/process/shared_memory.h"
#include "common/wire/shared_slots.h"
#include "ps_server/shard/chunk_grid.h"

namespace sluice {

// Memory for the chunks of a shard's weights that processes of the same host
// can read: slots of one size, each with a count of the times that somebody
// began to write it (common/wire/shared_slots.h). Slots that were never taken
// take no memory.
//
// Thread-safe.
class SharedChunks {
 public:
  // Errors as SharedMemory::Create. REQUIRES: both are at least 1.
  static absl::StatusOr<std::shared_ptr<SharedChunks>> Create(
      int64_t chunk_floats, int slots);

  // For the weights of a shard: the newest version, those that are held, and
  // one that is made meanwhile.
  static absl::StatusOr<std::shared_ptr<SharedChunks>> CreateFor(
      const ChunkGrid& grid, int max_held);

  // A slot that nobody has; -1: none is left, or no memory for it.
  int Take();
  void Return(int slot);

  float* floats(int slot) const {
    return reinterpret_cast<float*>(memory_.As<uint8_t>().data() +
                                    geometry_.FloatsAt(slot));
  }
  // To be called before a slot is written, so that whoever reads it then knows.
  void BeginWrite(int slot) {
    writes(slot).fetch_add(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
  }
  // How often that has been.
  uint64_t Writes(int slot) const {
    return writes(slot).load(std::memory_order_relaxed);
  }

  const SlotGeometry& geometry() const { return geometry_; }
  int descriptor() const { return memory_.descriptor(); }

 private:
  SharedChunks(SlotGeometry geometry, SharedMemory memory);
  std::atomic<uint64_t>& writes(int slot) const {
    return memory_.As<std::atomic<uint64_t>>()[slot];
  }

  // Constant after construction.
  const SlotGeometry geometry_;
  const SharedMemory memory_;

  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  std::vector<int> free_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_SHARED_CHUNKS_H_

#include "ps_server/shard/shared_chunks.h"

#include <algorithm>

#include "common/status_macros.h"

namespace sluice {

absl::StatusOr<std::shared_ptr<SharedChunks>> SharedChunks::Create(
    int64_t chunk_floats, int slots) {
  SLUICE_CHECK(chunk_floats >= 1 && slots >= 1);
  const SlotGeometry geometry = {.slots = slots, .slot_floats = chunk_floats};
  SLUICE_ASSIGN_OR_RETURN(
      SharedMemory memory,
      SharedMemory::Create("sluice weights", geometry.bytes(),
                           SharedMemory::Others::kRead,
                           SharedMemory::Pages::kWhenReserved));
  if (!memory.Reserve(0, geometry.FloatsAt(0))) {
    return absl::ResourceExhaustedError("no memory is left to share");
  }
  return std::shared_ptr<SharedChunks>(
      new SharedChunks(geometry, std::move(memory)));
}

absl::StatusOr<std::shared_ptr<SharedChunks>> SharedChunks::CreateFor(
    const ChunkGrid& grid, int max_held) {
  constexpr int64_t kMostSlots = 1 << 30;
  return Create(std::max<int64_t>(1, grid.size(0)),
                static_cast<int>(std::min(
                    int64_t{grid.count()} * (max_held + 2), kMostSlots)));
}

SharedChunks::SharedChunks(SlotGeometry geometry, SharedMemory memory)
    : geometry_(geometry), memory_(std::move(memory)) {
  for (int slot = geometry.slots - 1; slot >= 0; --slot) free_.push_back(slot);
}

int SharedChunks::Take() {
  int slot;
  {
    absl::MutexLock lock(&mu_);
    if (free_.empty()) return -1;
    slot = free_.back();
    free_.pop_back();
  }
  if (memory_.Reserve(geometry_.FloatsAt(slot), geometry_.SlotBytes())) {
    return slot;
  }
  Return(slot);
  return -1;
}

void SharedChunks::Return(int slot) {
  absl::MutexLock lock(&mu_);
  free_.push_back(slot);
}

}  // namespace sluice

#include "ps_server/shard/shared_chunks.h"

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

SharedChunks::SharedChunks(SlotGeometry geometry, SharedMemory memory)
    : geometry_(geometry), memory_(std::move(memory)) {
  for (int slot = geometry.slots - 1; slot >= 0; --slot) free_.push_back(slot);
}

int SharedChunks::Take() {
  absl::MutexLock lock(&mu_);
  if (free_.empty()) return -1;
  const int slot = free_.back();
  if (!memory_.Reserve(geometry_.FloatsAt(slot), geometry_.SlotBytes())) {
    return -1;
  }
  free_.pop_back();
  return slot;
}

void SharedChunks::Return(int slot) {
  absl::MutexLock lock(&mu_);
  free_.push_back(slot);
}

}  // namespace sluice

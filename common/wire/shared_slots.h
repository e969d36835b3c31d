#ifndef SLUICE_COMMON_WIRE_SHARED_SLOTS_H_
#define SLUICE_COMMON_WIRE_SHARED_SLOTS_H_

#include <atomic>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"

// Weights in memory that a shard shares with workers of the same host: slots of
// one size, each a chunk's. Before them stands for each slot how often it has
// begun to be written:
//
//   writes of slot 0, 1, ...   8 bytes each
//   slot 0, 1, ...             slot_floats floats each, on cache lines
//
// A reader is told of a slot and its writes, copies it, and looks whether they
// are still the same (a sequence lock; Boehm 2012, "Can seqlocks get along with
// programming language memory models?"). They are, as long as the shard holds
// the slot for it.
namespace sluice {

struct SlotGeometry {
  int slots = 0;
  int64_t slot_floats = 0;

  int64_t SlotBytes() const { return UpToLine(slot_floats * 4); }
  int64_t FloatsAt(int slot) const {
    return UpToLine(slots * int64_t{8}) + slot * SlotBytes();
  }
  int64_t bytes() const { return FloatsAt(slots); }

 private:
  static int64_t UpToLine(int64_t bytes) { return (bytes + 63) / 64 * 64; }
};

// A slot as it was when it had begun to be written so often.
struct SlotState {
  int slot = 0;
  uint64_t writes = 0;

  bool operator==(const SlotState&) const = default;
};

#if defined(__SANITIZE_THREAD__)
// ThreadSanitizer does not know fences; nothing here relies on what it sees.
#pragma GCC diagnostic ignored "-Wtsan"
#endif

// Copies the first floats of a slot in `memory`, which is laid out as above.
// False: it was written meanwhile, and what was copied is of no use.
// REQUIRES: the slot is one, and has so many floats.
inline bool CopySlot(const uint8_t* memory, const SlotGeometry& geometry,
                     const SlotState& state, absl::Span<float> to) {
  std::memcpy(to.data(), memory + geometry.FloatsAt(state.slot),
              to.size() * sizeof(float));
  std::atomic_thread_fence(std::memory_order_acquire);
  const auto* writes =
      reinterpret_cast<const std::atomic<uint64_t>*>(memory) + state.slot;
  return writes->load(std::memory_order_relaxed) == state.writes;
}

}  // namespace sluice

#endif  // SLUICE_COMMON_WIRE_SHARED_SLOTS_H_

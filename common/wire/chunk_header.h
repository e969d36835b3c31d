#ifndef SLUICE_COMMON_WIRE_CHUNK_HEADER_H_
#define SLUICE_COMMON_WIRE_CHUNK_HEADER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "common/ids.h"
#include "common/wire/float_type.h"
#include "common/wire/shared_slots.h"

namespace sluice {

// PullChunk without its payload.
struct PullChunkHeader {
  Version version;
  int64_t offset = 0;  // Floats from the start of the shard's range.
  FloatType type = FloatType::kUnspecified;
  // In place of a payload: of the chunks from `offset` on.
  std::vector<SlotState> slots = {};

  bool operator==(const PullChunkHeader&) const = default;
};

// Floats in memory that a worker shares with the shard.
struct SharedFloats {
  uint64_t link = 0;
  int memory = 0;  // Which of the link's.
  int64_t at = 0;  // Floats behind its begin.
  int64_t count = 0;

  bool operator==(const SharedFloats&) const = default;
};

// PushChunk without its payload.
struct PushChunkHeader {
  GradientKey key;
  std::string grant;
  int64_t offset = 0;  // Floats from the start of the shard's range.
  FloatType type = FloatType::kUnspecified;
  std::optional<SharedFloats> shared = std::nullopt;  // In place of a payload.
  std::string ready = {};  // A serialised Ready; empty: none comes with it.

  bool operator==(const PushChunkHeader&) const = default;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_WIRE_CHUNK_HEADER_H_

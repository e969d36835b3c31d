#ifndef SLUICE_COMMON_WIRE_CHUNK_HEADER_H_
#define SLUICE_COMMON_WIRE_CHUNK_HEADER_H_

#include <cstdint>
#include <string>

#include "common/ids.h"
#include "common/wire/float_type.h"

namespace sluice {

// PullChunk without its payload.
struct PullChunkHeader {
  Version version;
  int64_t offset = 0;  // Floats from the start of the shard's range.
  FloatType type = FloatType::kUnspecified;

  bool operator==(const PullChunkHeader&) const = default;
};

// PushChunk without its payload.
struct PushChunkHeader {
  GradientKey key;
  std::string grant;
  int64_t offset = 0;  // Floats from the start of the shard's range.
  FloatType type = FloatType::kUnspecified;

  bool operator==(const PushChunkHeader&) const = default;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_WIRE_CHUNK_HEADER_H_

#ifndef SLUICE_COMMON_WIRE_PAYLOAD_H_
#define SLUICE_COMMON_WIRE_PAYLOAD_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

namespace sluice {

// XXH3-64 of the bytes, as chunks carry it.
uint64_t ChunkChecksum(absl::Span<const uint8_t> data);
// Of the floats' bytes (little-endian).
uint64_t ChunkChecksum(absl::Span<const float> data);
// The same of `data`, which is copied to `to` in the same pass over memory.
// `to` has data.size() * sizeof(float) bytes, aligned or not.
uint64_t CopyWithChecksum(absl::Span<const float> data, uint8_t* to);

// The data of a received chunk, as the pieces in which it came: split
// anywhere and not aligned. Views only; whoever received them keeps the bytes.
//
// Immutable, therefore thread-safe.
class Payload {
 public:
  Payload() = default;
  // `checksum` is the one the sender computed.
  Payload(std::vector<absl::Span<const uint8_t>> parts, uint64_t checksum);

  size_t bytes() const { return bytes_; }
  const std::vector<absl::Span<const uint8_t>>& parts() const { return parts_; }

  // Copies the data and compares its checksum, in one pass over memory. Errors:
  // kInvalidArgument where the sizes differ, before anything is written;
  // kDataLoss where the checksum does: `to` then holds what came.
  absl::Status CopyTo(absl::Span<uint8_t> to) const;
  // The same of float32 (little-endian).
  absl::Status CopyTo(absl::Span<float> to) const;

 private:
  std::vector<absl::Span<const uint8_t>> parts_;
  size_t bytes_ = 0;
  uint64_t checksum_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_WIRE_PAYLOAD_H_

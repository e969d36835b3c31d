#ifndef SLUICE_COMMON_WIRE_PAYLOAD_H_
#define SLUICE_COMMON_WIRE_PAYLOAD_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"

namespace sluice {

// XXH3-64 of the bytes; the checksum of a chunk.
uint64_t ChunkChecksum(absl::Span<const uint8_t> data);
// XXH3-64 of the floats' bytes (little-endian).
uint64_t ChunkChecksum(absl::Span<const float> data);
// The same, and copies `data` to `to` in the same pass over memory. `to` has
// data.size() * sizeof(float) bytes, aligned or not.
uint64_t CopyWithChecksum(absl::Span<const float> data, uint8_t* to);

// Hears how many floats are there by now.
using FloatsSeen = absl::FunctionRef<void(size_t floats)>;
inline void NobodyLooks(size_t floats) {}

// The data of a received chunk, in the pieces in which it came: split anywhere
// and not aligned. These are views; the receiver keeps the bytes alive.
//
// Immutable, therefore thread-safe.
class Payload {
 public:
  Payload() = default;
  // `checksum` is the one the sender computed.
  Payload(std::vector<absl::Span<const uint8_t>> parts, uint64_t checksum);
  // Of memory that its sender shares: there is nothing on the way that could
  // damage it, so it has no checksum.
  static Payload Shared(absl::Span<const uint8_t> bytes);

  size_t bytes() const { return bytes_; }
  const std::vector<absl::Span<const uint8_t>>& parts() const { return parts_; }

  // Copies the data and verifies its checksum, in one pass over memory. Errors:
  // kInvalidArgument if the sizes differ, before anything is written; kDataLoss
  // if the checksums differ, after `to` was written.
  absl::Status CopyTo(absl::Span<uint8_t> to) const;
  // The same for float32 (little-endian). Calls `seen`, again and again, with
  // how many of them are there by now: the latest are still in the first-level
  // cache then, for whoever has to look at them.
  absl::Status CopyTo(absl::Span<float> to,
                      FloatsSeen seen = NobodyLooks) const;

 private:
  // Calls `seen` with how many bytes are there by now.
  absl::Status Copy(absl::Span<uint8_t> to,
                    absl::FunctionRef<void(size_t bytes)> seen) const;

  std::vector<absl::Span<const uint8_t>> parts_;
  size_t bytes_ = 0;
  std::optional<uint64_t> checksum_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_WIRE_PAYLOAD_H_

#ifndef SLUICE_WORKER_REFERENCE_WEIGHTS_DIGEST_H_
#define SLUICE_WORKER_REFERENCE_WEIGHTS_DIGEST_H_

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "common/sha256.h"

namespace sluice {

// SHA-256 (hex) over the flat vector's little-endian float32 bytes: equal for
// equal bits.
inline std::string WeightsSha256(absl::Span<const float> weights) {
  return Sha256Hex(absl::Span<const uint8_t>(
      reinterpret_cast<const uint8_t*>(weights.data()),
      weights.size() * sizeof(float)));
}

}  // namespace sluice

#endif  // SLUICE_WORKER_REFERENCE_WEIGHTS_DIGEST_H_

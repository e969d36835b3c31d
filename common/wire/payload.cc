#include "common/wire/payload.h"

// For XXH3_state_t on the stack.
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little,
              "floats are copied as they lie");

// Hashed, then copied while it is still in the first-level cache.
constexpr size_t kPieceBytes = 16 << 10;

}  // namespace

uint64_t ChunkChecksum(absl::Span<const float> data) {
  return XXH3_64bits(data.data(), data.size() * sizeof(float));
}

Payload::Payload(std::vector<absl::Span<const uint8_t>> parts,
                 uint64_t checksum)
    : parts_(std::move(parts)), checksum_(checksum) {
  for (const auto& part : parts_) bytes_ += part.size();
}

absl::Status Payload::CopyTo(absl::Span<float> to) const {
  if (bytes_ != to.size() * sizeof(float)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "chunk has ", bytes_, " bytes, expected ", to.size() * sizeof(float)));
  }
  XXH3_state_t hash;
  XXH3_64bits_reset(&hash);
  char* out = reinterpret_cast<char*>(to.data());
  for (const auto& part : parts_) {
    for (size_t i = 0; i < part.size(); i += kPieceBytes) {
      const auto piece = part.subspan(i, kPieceBytes);
      XXH3_64bits_update(&hash, piece.data(), piece.size());
      std::memcpy(out, piece.data(), piece.size());
      out += piece.size();
    }
  }
  const uint64_t checksum = XXH3_64bits_digest(&hash);
  if (checksum == checksum_) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("chunk's checksum is ",
                                          absl::Hex(checksum), ", sent was ",
                                          absl::Hex(checksum_)));
}

}  // namespace sluice

#include "common/wire/payload.h"

// For XXH3_state_t on the stack.
#define XXH_STATIC_LINKING_ONLY
#include <xxhash.h>
#if defined(__x86_64__)
// The library's plain functions use SSE2 only. These choose the best
// instructions of the machine: with AVX-512, pieces in the cache are hashed at
// 84 GB/s instead of 5.
#include <xxh_x86dispatch.h>
#endif

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little,
              "floats are copied as they lie");

// A piece is hashed and then copied while it is still in the first-level cache.
constexpr size_t kPieceBytes = 16 << 10;

// Copies parts to one place and hashes them on the way.
class HashingCopy {
 public:
  explicit HashingCopy(uint8_t* to) : to_(to) { XXH3_64bits_reset(&hash_); }

  void Append(absl::Span<const uint8_t> part) {
    for (size_t i = 0; i < part.size(); i += kPieceBytes) {
      const auto piece = part.subspan(i, kPieceBytes);
      XXH3_64bits_update(&hash_, piece.data(), piece.size());
      std::memcpy(to_, piece.data(), piece.size());
      to_ += piece.size();
    }
  }
  uint64_t checksum() const { return XXH3_64bits_digest(&hash_); }

 private:
  XXH3_state_t hash_;
  uint8_t* to_;
};

}  // namespace

uint64_t ChunkChecksum(absl::Span<const uint8_t> data) {
  return XXH3_64bits(data.data(), data.size());
}

uint64_t ChunkChecksum(absl::Span<const float> data) {
  return XXH3_64bits(data.data(), data.size() * sizeof(float));
}

uint64_t CopyWithChecksum(absl::Span<const float> data, uint8_t* to) {
  HashingCopy copy(to);
  copy.Append({reinterpret_cast<const uint8_t*>(data.data()),
               data.size() * sizeof(float)});
  return copy.checksum();
}

Payload::Payload(std::vector<absl::Span<const uint8_t>> parts,
                 uint64_t checksum)
    : parts_(std::move(parts)), checksum_(checksum) {
  for (const auto& part : parts_) bytes_ += part.size();
}

Payload Payload::Shared(absl::Span<const uint8_t> bytes) {
  Payload payload({bytes}, 0);
  payload.checksum_.reset();
  return payload;
}

absl::Status Payload::CopyTo(absl::Span<float> to) const {
  return CopyTo(absl::MakeSpan(reinterpret_cast<uint8_t*>(to.data()),
                               to.size() * sizeof(float)));
}

absl::Status Payload::CopyTo(absl::Span<uint8_t> to) const {
  if (bytes_ != to.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk has ", bytes_, " bytes, expected ", to.size()));
  }
  if (!checksum_.has_value()) {
    for (const auto& part : parts_) {
      std::memcpy(to.data(), part.data(), part.size());
      to.remove_prefix(part.size());
    }
    return absl::OkStatus();
  }
  HashingCopy copy(to.data());
  for (const auto& part : parts_) copy.Append(part);
  const uint64_t checksum = copy.checksum();
  if (checksum == checksum_) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("chunk's checksum is ",
                                          absl::Hex(checksum), ", sent was ",
                                          absl::Hex(*checksum_)));
}

}  // namespace sluice

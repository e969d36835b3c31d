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

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

static_assert(std::endian::native == std::endian::little,
              "floats are copied as they lie");

// A piece is hashed, copied and looked at while it is still in the first-level
// cache.
constexpr size_t kPieceBytes = 16 << 10;

// Copies parts to one place, and hashes them on the way if need be.
class PieceCopy {
 public:
  PieceCopy(uint8_t* to, bool hashes) : begin_(to), to_(to), hashes_(hashes) {
    XXH3_64bits_reset(&hash_);
  }

  // Calls `seen` with the bytes that are there after each piece.
  void Append(absl::Span<const uint8_t> part,
              absl::FunctionRef<void(size_t bytes)> seen) {
    for (size_t i = 0; i < part.size(); i += kPieceBytes) {
      const auto piece = part.subspan(i, kPieceBytes);
      if (hashes_) XXH3_64bits_update(&hash_, piece.data(), piece.size());
      std::memcpy(to_, piece.data(), piece.size());
      to_ += piece.size();
      seen(to_ - begin_);
    }
  }
  uint64_t checksum() const { return XXH3_64bits_digest(&hash_); }

 private:
  XXH3_state_t hash_;
  uint8_t* const begin_;
  uint8_t* to_;
  const bool hashes_;
};

}  // namespace

uint64_t ChunkChecksum(absl::Span<const uint8_t> data) {
  return XXH3_64bits(data.data(), data.size());
}

uint64_t ChunkChecksum(absl::Span<const float> data) {
  return XXH3_64bits(data.data(), data.size() * sizeof(float));
}

uint64_t CopyWithChecksum(absl::Span<const float> data, uint8_t* to) {
  PieceCopy copy(to, /*hashes=*/true);
  copy.Append({reinterpret_cast<const uint8_t*>(data.data()),
               data.size() * sizeof(float)},
              [](size_t) {});
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

absl::Status Payload::CopyTo(absl::Span<float> to, FloatsSeen seen) const {
  return Copy(absl::MakeSpan(reinterpret_cast<uint8_t*>(to.data()),
                             to.size() * sizeof(float)),
              [seen](size_t bytes) { seen(bytes / sizeof(float)); });
}

absl::Status Payload::CopyTo(absl::Span<uint8_t> to) const {
  return Copy(to, [](size_t) {});
}

absl::Status Payload::Copy(absl::Span<uint8_t> to,
                           absl::FunctionRef<void(size_t bytes)> seen) const {
  if (bytes_ != to.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("chunk has ", bytes_, " bytes, expected ", to.size()));
  }
  PieceCopy copy(to.data(), checksum_.has_value());
  for (const auto& part : parts_) copy.Append(part, seen);
  if (!checksum_.has_value()) return absl::OkStatus();
  const uint64_t checksum = copy.checksum();
  if (checksum == checksum_) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("chunk's checksum is ",
                                          absl::Hex(checksum), ", sent was ",
                                          absl::Hex(*checksum_)));
}

}  // namespace sluice

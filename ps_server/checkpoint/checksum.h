#ifndef SLUICE_PS_SERVER_CHECKPOINT_CHECKSUM_H_
#define SLUICE_PS_SERVER_CHECKPOINT_CHECKSUM_H_

#include <xxhash.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace sluice {

// XXH3-64 of a header's or manifest's bytes.
inline uint64_t TextChecksum(absl::string_view text) {
  return XXH3_64bits(text.data(), text.size());
}

// 16 lower-case hexadecimal digits.
inline std::string HexChecksum(uint64_t checksum) {
  return absl::StrCat(absl::Hex(checksum, absl::kZeroPad16));
}

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_CHECKPOINT_CHECKSUM_H_

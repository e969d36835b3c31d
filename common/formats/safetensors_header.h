#ifndef SLUICE_COMMON_FORMATS_SAFETENSORS_HEADER_H_
#define SLUICE_COMMON_FORMATS_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/files/input_file.h"

namespace sluice {

// The header of a .safetensors file
// (https://github.com/huggingface/safetensors):
//
//   8 bytes   length N of the header, little endian
//   N bytes   JSON: {"NAME": {"dtype": "F32", "shape": [...],
//                             "data_offsets": [begin, end]}, ...}
//             offsets in bytes from the end of the header; padded with spaces
//             so that the data begins at a multiple of 8 bytes; "__metadata__"
//             may name texts
//   the data  little-endian float32, without gaps
struct SafetensorsHeader {
  // One float32 tensor, and the position of its bytes in the data.
  struct Tensor {
    std::vector<int64_t> shape;
    int64_t begin = 0;
    int64_t end = 0;
  };
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// Encodes a header, preceded by its length, for float32 tensors that follow
// each other in the order given. REQUIRES: every dimension is at least 0.
std::string EncodeSafetensorsHeader(
    const std::vector<std::pair<std::string, std::vector<int64_t>>>& tensors,
    const std::map<std::string, std::string>& metadata);

// Reads the header's JSON. kDataLoss: the file is too short for it.
absl::StatusOr<std::string> ReadSafetensorsHeader(const InputFile& file);

// Parses the JSON `text` of a file that has `data_bytes` after it. `path` is
// for messages. kInvalidArgument: a tensor is not F32. kDataLoss: the header is
// malformed, tensors overlap or leave gaps, or bytes are missing or left over.
// Messages name the path, the tensor, what was expected and what was found.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(
    const std::string& path, absl::string_view text, int64_t data_bytes);

// Byte position of the data in a file with this JSON.
int64_t SafetensorsDataBegin(absl::string_view text);

}  // namespace sluice

#endif  // SLUICE_COMMON_FORMATS_SAFETENSORS_HEADER_H_

#ifndef SLUICE_COMMON_SAFETENSORS_HEADER_H_
#define SLUICE_COMMON_SAFETENSORS_HEADER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/input_file.h"

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
  // One tensor, all of them float32, and where its bytes lie in the data.
  struct Tensor {
    std::vector<int64_t> shape;
    int64_t begin = 0;
    int64_t end = 0;
  };
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

// The bytes of a header, with its length before it, of float32 tensors that
// follow one another in the order given.
// REQUIRES: every dimension is 0 or more.
std::string EncodeSafetensorsHeader(
    const std::vector<std::pair<std::string, std::vector<int64_t>>>& tensors,
    const std::map<std::string, std::string>& metadata);

// The header's JSON. kDataLoss: the file is too short for it.
absl::StatusOr<std::string> ReadSafetensorsHeader(const InputFile& file);

// What the JSON `text` says, of a file with `data_bytes` after it. `path` is
// for messages. kInvalidArgument: a tensor is not F32; kDataLoss: the header is
// malformed, tensors overlap or leave gaps, or bytes are missing or left over.
// Each names the path, the tensor, what was expected and what came.
absl::StatusOr<SafetensorsHeader> ParseSafetensorsHeader(
    const std::string& path, absl::string_view text, int64_t data_bytes);

// Where the data of a file with this JSON begins, in bytes.
int64_t SafetensorsDataBegin(absl::string_view text);

}  // namespace sluice

#endif  // SLUICE_COMMON_SAFETENSORS_HEADER_H_

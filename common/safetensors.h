#ifndef SLUICE_COMMON_SAFETENSORS_H_
#define SLUICE_COMMON_SAFETENSORS_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/parameter_layout.h"

namespace sluice {

// Weights as a .safetensors file (https://github.com/huggingface/safetensors),
// which PyTorch, NumPy and others load:
//
//   8 bytes   length N of the header, little endian
//   N bytes   JSON: {"NAME": {"dtype": "F32", "shape": [...],
//                             "data_offsets": [begin, end]}, ...}
//             offsets in bytes from the end of the header; padded with spaces
//             so that the data begins at a multiple of 8 bytes
//   the data  little-endian float32, without gaps

// Writes the flat vector `weights` under the names and shapes of `layout`,
// atomically (common/atomic_file.h). kUnavailable when the disk refuses.
// REQUIRES: weights.size() == layout.size().
absl::Status WriteSafetensors(const std::string& path,
                              const ParameterLayout& layout,
                              absl::Span<const float> weights);

// Reads such a file back into the flat vector of `layout`, whatever the order
// of its tensors. kNotFound; kInvalidArgument when the tensors are not
// exactly the layout's; kDataLoss when the header is malformed, tensors
// overlap or leave gaps, or bytes are missing or left over. Each names the
// file, what was expected and what came.
absl::StatusOr<std::vector<float>> ReadSafetensors(
    const std::string& path, const ParameterLayout& layout);

}  // namespace sluice

#endif  // SLUICE_COMMON_SAFETENSORS_H_

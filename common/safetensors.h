#ifndef SLUICE_COMMON_SAFETENSORS_H_
#define SLUICE_COMMON_SAFETENSORS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/input_file.h"
#include "common/parameter_layout.h"

namespace sluice {

// Weights as a .safetensors file (common/safetensors_header.h), which PyTorch,
// NumPy and others load.

// Writes the flat vector `weights` under the names and shapes of `layout`,
// atomically (common/atomic_file.h). kUnavailable when the disk refuses.
// REQUIRES: weights.size() == layout.size().
absl::Status WriteSafetensors(const std::string& path,
                              const ParameterLayout& layout,
                              absl::Span<const float> weights);

// Such a file, opened for reading: it holds exactly the tensors of one layout,
// in whatever order. Only what is asked for is read. The file must not be
// written to meanwhile; it may be replaced (WriteSafetensors does).
//
// Thread-compatible.
class SafetensorsFile {
 public:
  // Reads the header. kNotFound when the file cannot be opened;
  // kInvalidArgument when the tensors are not exactly the layout's, or one is
  // not F32; kDataLoss when the header is malformed, tensors overlap or leave
  // gaps, or bytes are missing or left over. Each names the file, the tensor,
  // what was expected and what came. `layout` is not kept.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path,
                                              const ParameterLayout& layout);

  // The floats of `range` of the layout's flat vector, within which it must
  // lie. kDataLoss.
  absl::StatusOr<std::vector<float>> Read(ParameterRange range) const;

  // SHA-256 (hex) over the whole file, which is read piece by piece. kDataLoss.
  absl::StatusOr<std::string> Sha256() const;

 private:
  // Where a tensor lies in the flat vector, and in the file.
  struct Piece {
    ParameterRange range;
    int64_t file_offset = 0;  // Bytes.
  };

  explicit SafetensorsFile(InputFile file);
  absl::Status Place(const ParameterLayout& layout);

  InputFile file_;
  std::vector<Piece> pieces_;
};

// Reads such a file back into the flat vector of `layout`. Errors as above.
absl::StatusOr<std::vector<float>> ReadSafetensors(
    const std::string& path, const ParameterLayout& layout);

}  // namespace sluice

#endif  // SLUICE_COMMON_SAFETENSORS_H_

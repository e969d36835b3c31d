#ifndef SLUICE_COMMON_FORMATS_SAFETENSORS_H_
#define SLUICE_COMMON_FORMATS_SAFETENSORS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/files/input_file.h"
#include "common/parameter_layout.h"

namespace sluice {

// Weights as a .safetensors file (common/formats/safetensors_header.h), which
// PyTorch, NumPy and others can load.

// Writes the flat vector `weights` under the names and shapes of `layout`,
// atomically (common/files/atomic_file.h). kUnavailable if the disk fails.
// REQUIRES: weights.size() == layout.size().
absl::Status WriteSafetensors(const std::string& path,
                              const ParameterLayout& layout,
                              absl::Span<const float> weights);
// The same, of weights that come in parts, from the first float to the last:
// each is used before the next one is asked for. Else the errors of `next`.
absl::Status WriteSafetensors(
    const std::string& path, const ParameterLayout& layout,
    const std::function<absl::StatusOr<absl::Span<const float>>()>& next);

// A file opened for reading that has exactly the tensors of one layout, in any
// order. Reads only what is asked for. While it is open the file must not be
// written to; it may be replaced (WriteSafetensors does so).
//
// Thread-compatible.
class SafetensorsFile {
 public:
  // Reads the header. Errors of InputFile. kInvalidArgument also: the tensors
  // are not exactly those of the layout, or one is not F32.
  // kDataLoss: the header is malformed, tensors overlap or leave gaps, or bytes
  // are missing or left over. Messages name the file, the tensor, what was
  // expected and what was found. `layout` is not kept.
  static absl::StatusOr<SafetensorsFile> Open(const std::string& path,
                                              const ParameterLayout& layout);

  // The floats of `range`, which must lie within the layout's flat vector.
  // kUnavailable: the system cannot read them just now.
  absl::StatusOr<std::vector<float>> Read(ParameterRange range) const;

  // SHA-256 (hex) of the whole file, read piece by piece. kUnavailable, too.
  absl::StatusOr<std::string> Sha256() const;

 private:
  // Position of a tensor in the flat vector and in the file.
  struct Piece {
    ParameterRange range;
    int64_t file_offset = 0;  // Bytes.
  };

  explicit SafetensorsFile(InputFile file);
  absl::Status Place(const ParameterLayout& layout);

  InputFile file_;
  std::vector<Piece> pieces_;
};

// Reads such a file into the flat vector of `layout`. Errors as above.
absl::StatusOr<std::vector<float>> ReadSafetensors(
    const std::string& path, const ParameterLayout& layout);

}  // namespace sluice

#endif  // SLUICE_COMMON_FORMATS_SAFETENSORS_H_

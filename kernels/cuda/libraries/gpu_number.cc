#include "kernels/cuda/libraries/gpu_number.h"

#include "absl/strings/str_cat.h"

namespace sluice::kernels::cuda {

absl::Status CheckGpuNumber(int number, absl::Span<const std::string> names) {
  const int count = static_cast<int>(names.size());
  if (number >= 0 && number < count) return absl::OkStatus();
  if (count == 0) {
    return absl::NotFoundError("no CUDA device: this machine has no GPU");
  }
  std::string text =
      absl::StrCat("no GPU ", number, " among those that this process sees: ");
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", i, " (", names[i], ")");
  }
  return absl::OutOfRangeError(text);
}

}  // namespace sluice::kernels::cuda

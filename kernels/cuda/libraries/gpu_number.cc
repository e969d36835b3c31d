#include "kernels/cuda/libraries/gpu_number.h"

#include "absl/strings/str_cat.h"

namespace sluice::kernels::cuda {

absl::Status CheckDriver(int driver, int build) {
  if (driver == 0) {
    return absl::NotFoundError("no CUDA device: this machine has no driver");
  }
  const auto name = [](int version) {
    return absl::StrCat(version / 1000, ".", version % 1000 / 10);
  };
  // A driver serves all later versions of the same number before the point
  // (CUDA Compatibility, "Minor Version Compatibility").
  if (driver / 1000 >= build / 1000) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the NVIDIA driver is for CUDA ", name(driver),
                   ", expected one for CUDA ", build / 1000,
                   ".0 or later: this build is with CUDA ", name(build)));
}

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

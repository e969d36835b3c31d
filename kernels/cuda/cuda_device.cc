#include "kernels/cuda/cuda_device.h"

#include <dlfcn.h>

#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/cuda_object.h"

namespace sluice::kernels {
namespace {

// Of the folders above the program's own: its tests lie up to two levels below
// the folder that holds kernels/.
constexpr int kFoldersAbove = 3;

absl::Status NoDevice(absl::string_view why) {
  return absl::NotFoundError(absl::StrCat("no CUDA device: ", why));
}

}  // namespace

std::string CudaObjectPath() {
  std::error_code error;
  auto folder = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return "";
  for (int i = 0; i <= kFoldersAbove && folder.has_relative_path(); ++i) {
    folder = folder.parent_path();
    const auto path = folder / "kernels/cuda/libsluice_cuda.so";
    if (std::filesystem::exists(path, error)) return path;
  }
  return "";
}

absl::StatusOr<std::unique_ptr<Device>> MakeCudaDevice(
    const CudaOptions& options) {
  const std::string path = CudaObjectPath();
  if (path.empty()) {
    return NoDevice("this build has none (made without a CUDA toolkit)");
  }
  // Looked for first, so that a machine without a GPU needs none of the other
  // libraries. It stays loaded, as CUDA expects.
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    return NoDevice(
        absl::StrCat("this machine has no NVIDIA driver (", dlerror(), ")"));
  }
  void* const object = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* const make =
      object == nullptr ? nullptr : dlsym(object, kMakeCudaDeviceSymbol);
  if (make == nullptr) {
    return absl::FailedPreconditionError(
        absl::StrCat("the CUDA device cannot be loaded: ", dlerror()));
  }
  absl::StatusOr<std::unique_ptr<Device>> device =
      absl::InternalError("not made");
  reinterpret_cast<MakeCudaDeviceFunction*>(make)(options, &device);
  return device;
}

}  // namespace sluice::kernels

#include "kernels/device.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace sluice::kernels {
namespace {

class HostBuffer : public Buffer {
 public:
  explicit HostBuffer(void* data) : data_(data) {}
  ~HostBuffer() override { std::free(data_); }
  void* data() override { return data_; }

 private:
  void* const data_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Buffer>> Device::Allocate(int64_t bytes) {
  // aligned_alloc wants a multiple of the alignment.
  const int64_t rounded = (bytes + 64) / 64 * 64;
  void* data = std::aligned_alloc(64, rounded);
  if (data == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a buffer of ", bytes, " bytes"));
  }
  return std::make_unique<HostBuffer>(data);
}

}  // namespace sluice::kernels

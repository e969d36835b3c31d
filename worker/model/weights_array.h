#ifndef SLUICE_WORKER_MODEL_WEIGHTS_ARRAY_H_
#define SLUICE_WORKER_MODEL_WEIGHTS_ARRAY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/device.h"

namespace sluice {

// Weights of the host on their way to operations: in place where device memory
// is host memory; else brought part by part as they come, beside operations
// that need no more than what is there.
//
// Not thread-safe: call from the thread that computes.
class WeightsArray {
 public:
  // Waits until the floats before `end` are there, and returns how many are
  // from the first on: `end` or more.
  using Await = std::function<absl::StatusOr<int64_t>(int64_t end)>;

  // For vectors of `floats`. `device` must outlive it.
  static absl::StatusOr<WeightsArray> Create(kernels::Device* device,
                                             int64_t floats);

  // Begins a vector, which stays until the next Begin. Where `await` is nullptr
  // all of it is there. `on_copy` hears when a copy begins (true) and ends.
  absl::Status Begin(
      absl::Span<const float> values, Await await,
      std::function<void(bool)> on_copy = [](bool) {});
  // Device memory for operations to read it. REQUIRES: begun.
  const float* on_device() const;
  // From now on on_device(), and for operations to write as well: on a device
  // with host memory it is a copy. REQUIRES: Need was called for all floats.
  float* Own();
  // Operations called from now on find the floats before `end`. Errors:
  // those of what is awaited.
  absl::Status Need(int64_t end);

 private:
  WeightsArray() = default;

  // Both nullptr where device memory is host memory.
  std::unique_ptr<kernels::Buffer> buffer_;
  std::unique_ptr<kernels::Upload> upload_;

  absl::Span<const float> values_;
  Await await_;
  std::function<void(bool)> on_copy_;
  int64_t there_ = 0;
  bool owns_ = false;
  std::vector<float> copy_;  // Empty until there is one to own.
};

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_WEIGHTS_ARRAY_H_

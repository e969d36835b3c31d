#ifndef SLUICE_WORKER_MODEL_ACCELERATOR_WEIGHTS_ARRAY_H_
#define SLUICE_WORKER_MODEL_ACCELERATOR_WEIGHTS_ARRAY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/accelerator.h"
#include "worker/task/flow.h"
#include "worker/task/task_progress.h"

namespace sluice {

// Weights of the host on their way to operations, which read values(): in place
// where device memory is host memory; else brought part by part as they come,
// beside operations that need no more than what is there.
//
// Not thread-safe: call from the compute thread.
class WeightsArray final : public WeightSource {
 public:
  // For vectors of `floats`. `device` must outlive it.
  static absl::StatusOr<WeightsArray> Create(kernels::Device* device,
                                             int64_t floats);

  // Begins a vector, of which nothing has been waited for. `progress` hears of
  // copies. Both must stay while anything below is called.
  absl::Status Begin(WeightSource* host, TaskProgress* progress);
  // In device memory, for operations that are called after the WaitUntil for
  // what they read. REQUIRES: begun.
  absl::Span<const float> values() const override;
  // Errors as those of `host`.
  absl::StatusOr<OrRestarted<int64_t>> WaitUntil(int64_t end) override;
  // All have been waited for.
  bool complete() const {
    return there_ == static_cast<int64_t>(host_->values().size());
  }
  // From now on values(), and for operations to write as well: on a device with
  // host memory it is a copy. REQUIRES: complete().
  float* Own();

 private:
  WeightsArray() = default;

  // Both nullptr where device memory is host memory.
  std::unique_ptr<kernels::Buffer> buffer_;
  std::unique_ptr<kernels::Upload> upload_;

  WeightSource* host_ = nullptr;
  TaskProgress* progress_ = nullptr;
  int64_t there_ = 0;
  bool owns_ = false;
  std::vector<float> copy_;  // Empty until there is one to own.
};

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_ACCELERATOR_WEIGHTS_ARRAY_H_

#ifndef SLUICE_WORKER_MODEL_GRADIENT_ARRAY_H_
#define SLUICE_WORKER_MODEL_GRADIENT_ARRAY_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/parameter_layout.h"
#include "kernels/device.h"

namespace sluice {

// Where operations write a gradient, and its way to the host: in place where
// device memory is host memory; else part by part, beside the layers that are
// still computed.
//
// Not thread-safe: call from the thread that computes.
class GradientArray {
 public:
  // For vectors of `floats`. `device` must outlive it.
  static absl::StatusOr<GradientArray> Create(kernels::Device* device,
                                              int64_t floats);

  // Begins a gradient, and gives up one that did not come to its end. `values`
  // gets it until Finish or the next Begin; `on_ready` hears that everything
  // from a float on is there, in falling order, down to 0; `on_copy` when the
  // first of some parts is asked for (true) and the last of them has come.
  absl::Status Begin(
      absl::Span<float> values, std::function<void(int64_t from)> on_ready,
      std::function<void(bool)> on_copy = [](bool) {});
  // Device memory for operations to write it. REQUIRES: begun.
  float* on_device();
  // Operations have been called that write everything from float `from` on.
  absl::Status Final(int64_t from);
  // Waits until all of it is there. REQUIRES: Final(0) was called.
  absl::Status Finish();

 private:
  GradientArray() = default;

  // Begins to bring what lies between `from` and what is on its way already.
  absl::Status Send(int64_t from);
  // Takes what has come, or, with `wait`, everything.
  absl::Status Take(bool wait);

  // Both nullptr where device memory is host memory.
  std::unique_ptr<kernels::Buffer> buffer_;
  std::unique_ptr<kernels::Download> download_;

  absl::Span<float> values_;
  std::function<void(int64_t)> on_ready_;
  std::function<void(bool)> on_copy_;
  int64_t final_from_ = 0;
  int64_t sent_from_ = 0;
  std::deque<ParameterRange> under_way_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_GRADIENT_ARRAY_H_

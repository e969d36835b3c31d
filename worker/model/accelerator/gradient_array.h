#ifndef SLUICE_WORKER_MODEL_ACCELERATOR_GRADIENT_ARRAY_H_
#define SLUICE_WORKER_MODEL_ACCELERATOR_GRADIENT_ARRAY_H_

#include <cstdint>
#include <deque>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/parameter_layout.h"
#include "kernels/accelerator.h"
#include "worker/task/flow.h"
#include "worker/task/task_progress.h"

namespace sluice {

// Where operations write a gradient, values(), and its way to the host: in
// place where device memory is host memory; else part by part, beside the
// layers that are still computed.
//
// Not thread-safe: call from the compute thread.
class GradientArray final : public GradientSink {
 public:
  // For vectors of `floats`. `device` must outlive it.
  static absl::StatusOr<GradientArray> Create(kernels::Device* device,
                                              int64_t floats);

  // Begins a gradient, and gives up one that did not come to its end. `host`
  // gets it until Finish or the next Begin, and hears what has come; what has
  // not may be anything. `progress`
  // hears when the first of some parts is asked for and the last of them is
  // here. Both must stay until then.
  absl::Status Begin(GradientSink* host, TaskProgress* progress);
  // In device memory, for operations to write. REQUIRES: begun.
  absl::Span<float> values() override;
  // Operations have been called that write everything from float `from` on.
  // Errors of `host`, too.
  absl::Status FinalFrom(int64_t from) override;
  // Waits until all of it is there, and for all operations. REQUIRES:
  // FinalFrom(0) was called.
  absl::Status Finish();

 private:
  GradientArray() = default;

  // Begins to bring what lies between `from` and what is on its way already.
  absl::Status Send(int64_t from);
  // Takes what has come, or, with `wait`, everything.
  absl::Status Take(bool wait);

  // All nullptr where device memory is host memory.
  kernels::Accelerator* accelerator_ = nullptr;
  std::unique_ptr<kernels::Buffer> buffer_;
  std::unique_ptr<kernels::Download> download_;

  GradientSink* host_ = nullptr;
  TaskProgress* progress_ = nullptr;
  int64_t final_from_ = 0;
  int64_t sent_from_ = 0;
  std::deque<ParameterRange> under_way_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_ACCELERATOR_GRADIENT_ARRAY_H_

#ifndef SLUICE_WORKER_MODEL_ACCELERATOR_LOSS_SCALE_H_
#define SLUICE_WORKER_MODEL_ACCELERATOR_LOSS_SCALE_H_

#include <cmath>
#include <cstdint>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/status_macros.h"
#include "kernels/vector_op.h"
#include "proto/job.pb.h"
#include "worker/task/flow.h"

// Loss scaling (Micikevicius et al. 2018, 3.2): what backward computes is
// multiplied by a power of two, so that small gradients are not lost to FP16,
// and the gradient is divided by it in FP32. Where something overflows it is
// computed again at half the scale, down to 1.
//
// Each gradient begins at the same scale. A scale that went from one to the
// next would make a gradient depend on what its worker had computed before.
namespace sluice {

// The first scale: 1, and then nothing is scaled, unless the job computes in
// FP16; then 1024. A gradient of up to 65504 / 1024 = 63 fits at once, and one
// of 2^-24 / 1024 = 6e-11 is not yet zero. Where a sample's loss is a mean over
// `places` the gradients at these are as many times smaller, and the scale so
// many times larger, rounded down to a power of two.
float FirstLossScale(const proto::Worker& worker, int64_t places);

// Divides what is `trained` of a gradient of `floats` in device memory by
// `scale`, a power of two. Whether all of that is finite.
absl::StatusOr<bool> Unscale(float scale, int64_t floats,
                             kernels::VectorOp* trained, float* gradient);

// What `run(scale, into)` returns, which computes a Result and its gradient
// times `scale` into the sink `into`: once where `first` is 1, and then what is
// final is final. Else until nothing overflows, and nothing is final before the
// end.
template <typename Result, typename Run>
absl::StatusOr<OrRestarted<Result>> WithLossScale(float first,
                                                  kernels::VectorOp* trained,
                                                  GradientSink& gradient,
                                                  const Run& run) {
  if (first == 1) return run(1.0f, gradient);
  const absl::Span<float> values = gradient.values();
  GradientInPlace scaled(values);
  int overflows = 0;
  for (float scale = first;; scale /= 2, ++overflows) {
    SLUICE_ASSIGN_OR_RETURN(OrRestarted<Result> computed, run(scale, scaled));
    if (IsRestarted(computed)) return Restarted{};
    Result& result = std::get<Result>(computed);
    result.overflows = overflows;
    SLUICE_ASSIGN_OR_RETURN(const bool finite,
                            Unscale(scale, static_cast<int64_t>(values.size()),
                                    trained, values.data()));
    // Another scale does not help a loss that is not finite.
    if (finite || scale == 1 || !std::isfinite(result.loss)) {
      SLUICE_RETURN_IF_ERROR(gradient.FinalFrom(0));
      return computed;
    }
  }
}

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_ACCELERATOR_LOSS_SCALE_H_

#ifndef SLUICE_WORKER_MODEL_LOSS_SCALE_H_
#define SLUICE_WORKER_MODEL_LOSS_SCALE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "kernels/vector_op.h"
#include "proto/job.pb.h"

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

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_LOSS_SCALE_H_

#ifndef SLUICE_WORKER_MODEL_CLIP_NORM_H_
#define SLUICE_WORKER_MODEL_CLIP_NORM_H_

#include <cstdint>

#include "absl/status/status.h"
#include "kernels/vector_op.h"

namespace sluice {

// Scales `gradient`, of `floats` in device memory, down to the Euclidean norm
// `limit` when its own is larger (Pascanu, Mikolov, Bengio 2013):
//
//   g_i <- float(limit / |g|) g_i     when |g| > limit
//
// `squares` is |g|^2, of all the model's trained tensors; of a member of a
// worker the gradient is a part of g. Only what is `trained` is scaled. A
// gradient with NaN or infinity is left as it is, for the servers to reject.
// REQUIRES: limit > 0.
absl::Status ClipNorm(double limit, double squares, int64_t floats,
                      kernels::VectorOp* trained, float* gradient);

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_CLIP_NORM_H_

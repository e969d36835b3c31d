#ifndef SLUICE_WORKER_MODEL_CLIP_NORM_H_
#define SLUICE_WORKER_MODEL_CLIP_NORM_H_

#include "absl/types/span.h"
#include "common/parameter_layout.h"

namespace sluice {

// Scales `gradient` down to the Euclidean norm `limit` when its own is larger
// (Pascanu, Mikolov, Bengio 2013):
//
//   g_i <- float(limit / |g|) g_i     when |g| > limit
//
// The slots of running `statistics`, in order, are no part of it: they neither
// count nor change. A gradient with NaN or infinity is left as it is, for the
// servers to reject. REQUIRES: limit > 0.
//
// Numerics the squares are summed in double, in an order that depends on the
//          sizes alone: the same bits whatever the alignment.
void ClipNorm(double limit, absl::Span<const ParameterRange> statistics,
              absl::Span<float> gradient);

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_CLIP_NORM_H_

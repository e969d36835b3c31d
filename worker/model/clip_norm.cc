#include "worker/model/clip_norm.h"

#include <cmath>

#include "common/status_macros.h"

namespace sluice {

absl::Status ClipNorm(double limit, int64_t floats, kernels::VectorOp* trained,
                      float* gradient) {
  SLUICE_ASSIGN_OR_RETURN(const double squares,
                          trained->SumOfSquares(gradient));
  const double norm = std::sqrt(squares);
  if (!std::isfinite(norm) || norm <= limit) return absl::OkStatus();
  return trained->Scale({0, floats}, static_cast<float>(limit / norm), gradient,
                        gradient);
}

}  // namespace sluice

#include "worker/model/clip_norm.h"

#include <cmath>

namespace sluice {

absl::Status ClipNorm(double limit, double squares, int64_t floats,
                      kernels::VectorOp* trained, float* gradient) {
  const double norm = std::sqrt(squares);
  if (!std::isfinite(norm) || norm <= limit) return absl::OkStatus();
  return trained->Scale({0, floats}, static_cast<float>(limit / norm), gradient,
                        gradient);
}

}  // namespace sluice

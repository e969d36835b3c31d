// The scale is a power of two, so multiplying and dividing by it changes no bit
// of a number that stays in range. One sum tells whether all floats are finite:
// the squares are added up in double, where those of finite floats cannot
// overflow, and one that is not finite makes the sum so.
#include "worker/model/loss_scale.h"

#include <bit>
#include <cmath>
#include <cstdint>

#include "common/status_macros.h"

namespace sluice {

float FirstLossScale(const proto::Worker& worker, int64_t places) {
  if (worker.precision() != proto::Worker::FP16) return 1;
  return 1024 * static_cast<float>(std::bit_floor<uint64_t>(places));
}

absl::StatusOr<bool> Unscale(float scale, int64_t floats,
                             kernels::VectorOp* trained, float* gradient) {
  SLUICE_RETURN_IF_ERROR(
      trained->Scale({0, floats}, 1 / scale, gradient, gradient));
  SLUICE_ASSIGN_OR_RETURN(const double squares,
                          trained->SumOfSquares(gradient));
  return std::isfinite(squares);
}

}  // namespace sluice

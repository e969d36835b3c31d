// The scale is a power of two, so multiplying and dividing by it changes no bit
// of a number that stays in range. One sum tells whether all floats are finite:
// the squares are added up in double, where those of finite floats cannot
// overflow, and one that is not finite makes the sum so.
//
// A gradient is tried with a smaller scale until it fits (WithLossScale):
//
//   Run(1024)   a gradient of 100 becomes 102400, above 65504: infinite
//   Run(512)    51200; Unscale gives back 100; overflows 1
//
// so nothing is said to be final before one fits, and a try costs a whole pass.
// The scale begins at FirstLossScale in every call. If it were kept, what the
// worker had computed before would decide which small numbers vanish in FP16,
// and a replay would differ.
#include "worker/model/accelerator/loss_scale.h"

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

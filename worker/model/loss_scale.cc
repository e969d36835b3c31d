#include "worker/model/loss_scale.h"

#include <bit>
#include <cmath>
#include <cstdint>

namespace sluice {
namespace {

bool UnscalePiece(float inverse, absl::Span<float> piece) {
  bool finite = true;
  for (float& g : piece) {
    g *= inverse;
    finite &= std::isfinite(g);
  }
  return finite;
}

}  // namespace

float FirstLossScale(const proto::Worker& worker, int64_t places) {
  if (worker.precision() != proto::Worker::FP16) return 1;
  return 1024 * static_cast<float>(std::bit_floor<uint64_t>(places));
}

bool Unscale(float scale, absl::Span<const ParameterRange> statistics,
             absl::Span<float> gradient) {
  const float inverse = 1 / scale;
  bool finite = true;
  int64_t begin = 0;
  for (const ParameterRange& range : statistics) {
    finite &=
        UnscalePiece(inverse, gradient.subspan(begin, range.begin - begin));
    begin = range.end;
  }
  return UnscalePiece(inverse, gradient.subspan(begin)) && finite;
}

}  // namespace sluice

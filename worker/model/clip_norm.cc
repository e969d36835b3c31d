#include "worker/model/clip_norm.h"

#include <cmath>
#include <cstddef>

namespace sluice {

void ClipNorm(double limit, absl::Span<float> gradient) {
  // Side by side, so that one addition need not wait for the one before.
  constexpr size_t kLanes = 8;
  double lanes[kLanes] = {};
  for (size_t i = 0; i < gradient.size(); ++i) {
    const double g = gradient[i];
    lanes[i % kLanes] += g * g;
  }
  double squares = 0;
  for (double lane : lanes) squares += lane;
  const double norm = std::sqrt(squares);
  if (!std::isfinite(norm) || norm <= limit) return;
  const float factor = static_cast<float>(limit / norm);
  for (float& g : gradient) g *= factor;
}

}  // namespace sluice

#include "worker/model/clip_norm.h"

#include <cmath>
#include <cstddef>
#include <vector>

namespace sluice {
namespace {

// The pieces of `gradient` before, between and behind the statistics.
std::vector<absl::Span<float>> Trained(
    absl::Span<const ParameterRange> statistics, absl::Span<float> gradient) {
  std::vector<absl::Span<float>> pieces;
  int64_t begin = 0;
  for (const ParameterRange& range : statistics) {
    pieces.push_back(gradient.subspan(begin, range.begin - begin));
    begin = range.end;
  }
  pieces.push_back(gradient.subspan(begin));
  return pieces;
}

double SumOfSquares(absl::Span<const float> piece) {
  // Side by side, so that one addition need not wait for the one before.
  constexpr size_t kLanes = 8;
  double lanes[kLanes] = {};
  for (size_t i = 0; i < piece.size(); ++i) {
    const double g = piece[i];
    lanes[i % kLanes] += g * g;
  }
  double squares = 0;
  for (double lane : lanes) squares += lane;
  return squares;
}

}  // namespace

void ClipNorm(double limit, absl::Span<const ParameterRange> statistics,
              absl::Span<float> gradient) {
  const auto pieces = Trained(statistics, gradient);
  double squares = 0;
  for (const auto& piece : pieces) squares += SumOfSquares(piece);
  const double norm = std::sqrt(squares);
  if (!std::isfinite(norm) || norm <= limit) return;
  const float factor = static_cast<float>(limit / norm);
  for (const auto& piece : pieces) {
    for (float& g : piece) g *= factor;
  }
}

}  // namespace sluice

#include "worker/model/segments.h"

namespace sluice {

std::vector<Segment> JoinLayers(absl::Span<const double> seconds) {
  std::vector<Segment> segments;
  double taken = 0;  // By the last one.
  for (size_t i = 0; i < seconds.size(); ++i) {
    if (segments.empty() || (taken + seconds[i] > kSegmentSeconds &&
                             seconds[i] > kNothingSeconds)) {
      segments.push_back({i, i});
      taken = 0;
    }
    segments.back().end = i + 1;
    taken += seconds[i];
  }
  return segments;
}

}  // namespace sluice

// Layers of 0.5, 0.9, 0.8, 3, 0.01 and 1.5 ms, at most 2 ms together:
//
//   {0, 1}   1.4 ms; 2.2 with the next
//   {2}      0.8 ms; 3.8 with the next
//   {3, 4}   3 ms, too long by itself; 4 has nothing left to compute and joins:
//            a segment of its own would cost a launch
//   {5}      1.5 ms
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

#ifndef SLUICE_WORKER_MODEL_SEGMENTS_H_
#define SLUICE_WORKER_MODEL_SEGMENTS_H_

#include <cstddef>
#include <vector>

#include "absl/types/span.h"

namespace sluice {

// Layers [begin, end) of a pass, in the order in which they run.
struct Segment {
  size_t begin = 0;
  size_t end = 0;

  bool operator==(const Segment& other) const {
    return begin == other.begin && end == other.end;
  }
};

// What a segment takes at most where it has several layers: some hundred times
// as long as a launch, and a cancelled task costs two of them.
inline constexpr double kSegmentSeconds = 2e-3;

// What a layer takes at most that has nothing left to compute, as a relu that
// the layer before it has in it: calls that find nothing to wait for.
inline constexpr double kNothingSeconds = 20e-6;

// The segments of a pass whose layers took so many `seconds` each: one behind
// the other, each with as many layers as kSegmentSeconds allows. A layer that
// takes longer is alone but for what behind it takes kNothingSeconds, so that
// no segment is empty.
std::vector<Segment> JoinLayers(absl::Span<const double> seconds);

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_SEGMENTS_H_

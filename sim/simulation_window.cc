// The staleness of a gradient is the number of updates between its base and its
// update: in the update that makes version 9, a gradient with the bases 8 and 6
// (one per shard) counts as 9 - 1 - 6 = 2.
#include "sim/simulation_window.h"

#include <algorithm>

namespace sluice {

void SimulationWindow::Committed(const RecordCommit& commit, VirtualTime now) {
  commits.push_back(now);
  for (const RecordCommit::Entry& entry : commit.entries) {
    ++gradients.applied;
    const Version base =
        *std::min_element(entry.shard_bases.begin(), entry.shard_bases.end());
    const int64_t staleness = commit.version - 1 - base;
    staleness_sum += staleness;
    if (staleness >= static_cast<int64_t>(staleness_histogram.size())) {
      staleness_histogram.resize(staleness + 1);
    }
    ++staleness_histogram[staleness];
  }
}

void SimulationWindow::Ended(Outcome outcome) {
  switch (outcome) {
    case Outcome::kCancelled:
      ++gradients.cancelled;
      break;
    case Outcome::kDropped:
      ++gradients.dropped;
      break;
    case Outcome::kRejected:
      ++gradients.rejected;
      break;
    case Outcome::kLost:
      ++gradients.lost;
      break;
    case Outcome::kApplied:
      break;  // Counted with its update.
  }
}

}  // namespace sluice

#ifndef SLUICE_PS_SERVER_COORDINATOR_POLICY_DELIVERY_COUNTS_H_
#define SLUICE_PS_SERVER_COORDINATOR_POLICY_DELIVERY_COUNTS_H_

#include <cstdint>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/ids.h"

namespace sluice {

// The clocks of stale-synchronous parallel (Ho et al. 2013): how many
// gradients each worker has delivered, and who is too far ahead of the slowest
// to start another.
//
// Only workers that can still deliver take part, so that nobody waits for one
// that cannot. Cost O(log(workers)) per call.
//
// Not thread-safe: call from the coordinator.
class DeliveryCounts {
 public:
  // A worker may start when it is at most `bound` ahead of the slowest.
  explicit DeliveryCounts(int bound) : bound_(bound) {}

  // Takes part, from the slowest's count on. No effect if it does already.
  void Add(WorkerId worker);
  void Remove(WorkerId worker);
  // No effect on a worker that does not take part.
  void Delivered(WorkerId worker);
  // All begin again at the same count, and nobody is parked.
  void Level();

  bool Ahead(WorkerId worker) const;
  // Remembers to name `worker` once it is no longer ahead.
  void Park(WorkerId worker);
  std::vector<WorkerId> TakeReleased();

 private:
  int64_t Slowest() const { return by_count_.begin()->first; }

  const int bound_;
  absl::flat_hash_map<WorkerId, int64_t> count_;
  std::set<std::pair<int64_t, WorkerId>> by_count_;
  std::set<std::pair<int64_t, WorkerId>> parked_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_POLICY_DELIVERY_COUNTS_H_

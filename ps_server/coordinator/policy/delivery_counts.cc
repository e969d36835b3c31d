// `by_count_` holds what count_ does, ordered, so its first is the slowest.
// Only a worker without a task is parked (SyncPolicy::Place), and such a one
// delivers nothing: the count under which it is in parked_ stays its count.
//
// Bound 1, workers 0, 1 and 2:
//
//                    counts    0 may start?
//   0 delivers       1 0 0     yes
//   0 delivers       2 0 0     no: Ahead, and is parked
//   1 delivers       2 1 0     no: 2 is still at 0
//   2 delivers       2 1 1     yes: TakeReleased names 0
//
// Had 2 died instead (Remove), the slowest would be 1, and 0 released: nobody
// waits for a worker that cannot deliver. Worker 3, who joins now, starts at 1:
// at 0 it would stop all the others until it had caught up.
#include "ps_server/coordinator/policy/delivery_counts.h"

namespace sluice {

void DeliveryCounts::Add(WorkerId worker) {
  const int64_t start = by_count_.empty() ? 0 : Slowest();
  if (!count_.emplace(worker, start).second) return;
  by_count_.insert({start, worker});
}

void DeliveryCounts::Remove(WorkerId worker) {
  const auto it = count_.find(worker);
  if (it == count_.end()) return;
  by_count_.erase({it->second, worker});
  parked_.erase({it->second, worker});
  count_.erase(it);
}

void DeliveryCounts::Delivered(WorkerId worker) {
  const auto it = count_.find(worker);
  if (it == count_.end()) return;
  by_count_.erase({it->second, worker});
  ++it->second;
  by_count_.insert({it->second, worker});
}

void DeliveryCounts::Level() {
  by_count_.clear();
  parked_.clear();
  for (auto& [worker, count] : count_) {
    count = 0;
    by_count_.insert({0, worker});
  }
}

bool DeliveryCounts::Ahead(WorkerId worker) const {
  const auto it = count_.find(worker);
  return it != count_.end() && it->second - bound_ > Slowest();
}

void DeliveryCounts::Park(WorkerId worker) {
  const auto it = count_.find(worker);
  if (it != count_.end()) parked_.insert({it->second, worker});
}

std::vector<WorkerId> DeliveryCounts::TakeReleased() {
  std::vector<WorkerId> released;
  while (!parked_.empty() &&
         (by_count_.empty() || parked_.begin()->first - bound_ <= Slowest())) {
    released.push_back(parked_.begin()->second);
    parked_.erase(parked_.begin());
  }
  return released;
}

}  // namespace sluice

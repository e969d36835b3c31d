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

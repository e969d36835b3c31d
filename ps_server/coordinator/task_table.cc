#include "ps_server/coordinator/task_table.h"

#include <algorithm>

#include "common/status_macros.h"

namespace sluice {

TaskTable::TaskTable(Generation generation, absl::Duration deadline)
    : generation_(generation), deadline_(deadline) {}

GradientKey TaskTable::NextKey(WorkerId worker, Incarnation incarnation) {
  Counter& counter = counters_[worker];
  if (counter.incarnation != incarnation) counter = {incarnation, Sequence(0)};
  return {generation_, worker, incarnation, ++counter.sequence};
}

const OpenTask& TaskTable::Open(Task task, BlockId block, int64_t samples,
                                absl::Time now) {
  const GradientKey key = task.key;
  const bool idle = live_of_.emplace(key.worker, key).second;
  SLUICE_CHECK(idle);
  OpenTask& open = open_[key];
  open.task = std::move(task);
  open.block = block;
  open.samples = samples;
  open.deadline = now + deadline_;
  by_version_.insert({open.task.version, key});
  deadlines_.insert({open.deadline, key});
  return open;
}

const OpenTask& TaskTable::MarkReady(const Delivery& delivery, absl::Time now) {
  OpenTask& open = open_.at(delivery.key);
  SLUICE_CHECK(!open.ready);
  ForgetLive(open);
  ready_.insert(delivery.key);
  open.ready = true;
  open.ready_since = now;
  open.shard_bases = delivery.shard_bases;
  open.base = *std::min_element(delivery.shard_bases.begin(),
                                delivery.shard_bases.end());
  open.loss = delivery.loss;
  return open;
}

OpenTask TaskTable::Close(GradientKey key) {
  const auto it = open_.find(key);
  SLUICE_CHECK(it != open_.end());
  OpenTask closed = std::move(it->second);
  open_.erase(it);
  if (closed.ready) {
    ready_.erase(key);
  } else {
    ForgetLive(closed);
  }
  return closed;
}

void TaskTable::ForgetLive(const OpenTask& open) {
  const GradientKey& key = open.task.key;
  by_version_.erase({open.task.version, key});
  deadlines_.erase({open.deadline, key});
  live_of_.erase(key.worker);
}

const OpenTask* TaskTable::Find(const GradientKey& key) const {
  const auto it = open_.find(key);
  return it == open_.end() ? nullptr : &it->second;
}

const OpenTask* TaskTable::LiveOf(WorkerId worker) const {
  const auto it = live_of_.find(worker);
  return it == live_of_.end() ? nullptr : Find(it->second);
}

std::vector<GradientKey> TaskTable::LiveBelow(Version version) const {
  std::vector<GradientKey> keys;
  for (const auto& [from, key] : by_version_) {
    if (from >= version) break;
    keys.push_back(key);
  }
  return keys;
}

std::vector<GradientKey> TaskTable::AllLive() const {
  std::vector<GradientKey> keys;
  for (const auto& [from, key] : by_version_) keys.push_back(key);
  return keys;
}

std::vector<GradientKey> TaskTable::AllReady() const {
  return {ready_.begin(), ready_.end()};
}

std::vector<GradientKey> TaskTable::Overdue(absl::Time now) const {
  std::vector<GradientKey> keys;
  for (const auto& [deadline, key] : deadlines_) {
    if (deadline > now) break;
    keys.push_back(key);
  }
  return keys;
}

}  // namespace sluice

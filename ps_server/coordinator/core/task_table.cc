// What holds between calls: open_ has every task that has not ended; live_,
// live_of_ and deadlines_ have exactly those of them that are live, so all
// three change together (Open, ForgetLive). Tasks are opened at the newest
// version, which never falls; so live_ is in order of versions, and LiveBelow
// stops at the first that is not below.
//
//   Open a, of worker 0, version 4
//   Open b, of worker 1, version 4
//   MarkReady a                      live_ is b; a stays open until its verdict
//   Open c, of worker 0, version 5   live_ is b, c; LiveOf(0) is c
//   LiveBelow(5)                     b
//   Close a, Close b                 the next key of worker 0 has sequence 3:
//                                    none is used twice
#include "ps_server/coordinator/core/task_table.h"

#include <algorithm>

#include "common/status_macros.h"

namespace sluice {

TaskTable::TaskTable(Generation generation) : generation_(generation) {}

GradientKey TaskTable::NextKey(WorkerId worker, Incarnation incarnation) {
  Counter& counter = counters_[worker];
  if (counter.incarnation != incarnation) counter = {incarnation, Sequence(0)};
  return {generation_, worker, incarnation, ++counter.sequence};
}

const OpenTask& TaskTable::Open(Task task, BlockId block, int64_t samples,
                                absl::Time now, absl::Time deadline) {
  const GradientKey key = task.key;
  const bool idle = live_of_.emplace(key.worker, key).second;
  SLUICE_CHECK(idle);
  const Live live = {key, task.version, deadline};
  SLUICE_CHECK(live_.empty() || live_.back().version <= live.version);
  deadlines_.insert({deadline, key});
  Entry& entry = open_[key];
  entry.live = live_.insert(live_.end(), live);
  OpenTask& open = entry.task;
  open.task = std::move(task);
  open.block = block;
  open.samples = samples;
  open.opened = now;
  return open;
}

const OpenTask& TaskTable::MarkReady(const Delivery& delivery, absl::Time now) {
  Entry& entry = open_.at(delivery.key);
  OpenTask& open = entry.task;
  SLUICE_CHECK(!open.ready);
  ForgetLive(entry);
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
  Entry& entry = it->second;
  if (!entry.task.ready) ForgetLive(entry);
  OpenTask closed = std::move(entry.task);
  open_.erase(it);
  return closed;
}

void TaskTable::ForgetLive(const Entry& entry) {
  live_of_.erase(entry.live->key.worker);
  deadlines_.erase({entry.live->deadline, entry.live->key});
  live_.erase(entry.live);
}

const OpenTask* TaskTable::Find(const GradientKey& key) const {
  const auto it = open_.find(key);
  return it == open_.end() ? nullptr : &it->second.task;
}

const OpenTask* TaskTable::LiveOf(WorkerId worker) const {
  const auto it = live_of_.find(worker);
  return it == live_of_.end() ? nullptr : Find(it->second);
}

std::vector<GradientKey> TaskTable::LiveBelow(Version version) const {
  std::vector<GradientKey> keys;
  for (const Live& live : live_) {
    if (live.version >= version) break;
    keys.push_back(live.key);
  }
  return keys;
}

std::vector<const OpenTask*> TaskTable::LiveSince(absl::Time time) const {
  std::vector<const OpenTask*> since;
  for (const Live& live : live_) {
    const OpenTask& open = open_.at(live.key).task;
    if (open.opened > time) break;
    since.push_back(&open);
  }
  return since;
}

std::vector<GradientKey> TaskTable::AllLive() const {
  std::vector<GradientKey> keys;
  for (const Live& live : live_) keys.push_back(live.key);
  return keys;
}

std::vector<GradientKey> TaskTable::AllReady() const {
  std::vector<GradientKey> keys;
  for (const auto& [key, entry] : open_) {
    if (entry.task.ready) keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

void TaskTable::SetDeadline(const GradientKey& key, absl::Time deadline) {
  Live& live = *open_.at(key).live;
  deadlines_.erase({live.deadline, key});
  live.deadline = deadline;
  deadlines_.insert({deadline, key});
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

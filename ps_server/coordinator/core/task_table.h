#ifndef SLUICE_PS_SERVER_COORDINATOR_CORE_TASK_TABLE_H_
#define SLUICE_PS_SERVER_COORDINATOR_CORE_TASK_TABLE_H_

#include <cstdint>
#include <list>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "absl/time/time.h"
#include "common/ids.h"
#include "ps_server/coordinator/policy/batch_schedule.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// A task that was issued and has not ended: live until its gradient is ready,
// ready until its verdict.
struct OpenTask {
  Task task;
  BlockId block;
  int64_t samples = 0;
  absl::Time opened;
  bool ready = false;
  absl::Time ready_since;            // When ready.
  std::vector<Version> shard_bases;  // When ready.
  Version base;                      // Their minimum, when ready.
  double loss = 0;                   // When ready.
};

// The tasks that have not ended: at most one live task per mini-batch and per
// worker, every key used once.
//
// `now` and `deadline` are awake time, but for MarkReady's. What is returned by
// reference or pointer holds until the next Open or Close. Cost O(log(live
// tasks)) per call, and O(what it returns) where that is a list; AllReady's is
// O(open tasks).
//
// Not thread-safe: call from the coordinator.
class TaskTable {
 public:
  explicit TaskTable(Generation generation);

  // The key of the worker's next task: sequences count from 1 in every
  // incarnation.
  GradientKey NextKey(WorkerId worker, Incarnation incarnation);

  // It is overdue from `deadline` on, `now` or later. REQUIRES: the worker has
  // no live task, and neither has the block; no live task's version is above.
  const OpenTask& Open(Task task, BlockId block, int64_t samples,
                       absl::Time now, absl::Time deadline);
  // The gradient is ready, `now` by the clock on the wall. REQUIRES: the task
  // is live.
  const OpenTask& MarkReady(const Delivery& delivery, absl::Time now);
  // It is overdue from then on. REQUIRES: the task is live.
  void SetDeadline(const GradientKey& key, absl::Time deadline);
  // Forgets the task and returns it. By value: `key` may be part of the task.
  // REQUIRES: it is open.
  OpenTask Close(GradientKey key);

  // Null if the task has ended or never was.
  const OpenTask* Find(const GradientKey& key) const;
  const OpenTask* LiveOf(WorkerId worker) const;

  int64_t live() const { return static_cast<int64_t>(live_.size()); }
  int64_t open() const { return static_cast<int64_t>(open_.size()); }
  // Live tasks that start from a version below `version`, in the order of
  // their opening, as all lists of live tasks.
  std::vector<GradientKey> LiveBelow(Version version) const;
  std::vector<GradientKey> AllLive() const;
  bool AnyLive() const { return !live_of_.empty(); }
  // Live tasks that were opened at `time` or before, in the order of their
  // opening.
  std::vector<const OpenTask*> LiveSince(absl::Time time) const;
  std::vector<GradientKey> AllReady() const;  // In the order of keys.
  // Live tasks whose deadline has passed, the longest overdue first.
  std::vector<GradientKey> Overdue(absl::Time now) const;

 private:
  struct Live {
    GradientKey key;
    Version version;
    absl::Time deadline;
  };
  struct Entry {
    OpenTask task;
    std::list<Live>::iterator live;  // Unless it is ready.
  };
  void ForgetLive(const Entry& entry);

  const Generation generation_;

  struct Counter {
    Incarnation incarnation;
    Sequence sequence;
  };
  absl::flat_hash_map<WorkerId, Counter> counters_;
  absl::flat_hash_map<GradientKey, Entry> open_;
  absl::flat_hash_map<WorkerId, GradientKey> live_of_;
  std::list<Live> live_;  // As they were opened, which is by version.
  absl::btree_set<std::pair<absl::Time, GradientKey>> deadlines_;  // Of those.
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_CORE_TASK_TABLE_H_

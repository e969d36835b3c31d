#ifndef SLUICE_WORKER_PIPELINE_TURNS_H_
#define SLUICE_WORKER_PIPELINE_TURNS_H_

#include <cstdint>
#include <set>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/task/cancel_token.h"
#include "worker/task/task_progress.h"

namespace sluice {

// Who computes in a process whose slots share its cores: one task at a time,
// and of those that could, the one that began first. A task gives its turn away
// where it waits, so what is held is held for one pass of one stage at most.
//
//   slot 0   F0 F1 ------ waits ------ B0 ...
//   slot 1         F0 F1 ...    waits
//
// Thread-safe.
class Turns {
 public:
  // A task's place in the order.
  int64_t Begin();
  // Whether it is its turn now, which it then has.
  bool TryTake(int64_t task);
  // Waits for its turn; whether it has it. It has not where `cancel` was set.
  bool Take(int64_t task, const CancelToken& cancel);
  void Give();
  // Makes Take look at its token.
  void Wake();
  // Tasks in Take.
  int waiting();

 private:
  bool MayTake(int64_t task) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return !taken_ && (waiting_.empty() || task <= *waiting_.begin());
  }

  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  int64_t begun_ ABSL_GUARDED_BY(mu_) = 0;
  bool taken_ ABSL_GUARDED_BY(mu_) = false;
  std::set<int64_t> waiting_ ABSL_GUARDED_BY(mu_);
};

// One slot's part in it. A task that is cancelled while it waits for its turn
// goes on without, until it looks at its token, which is within one layer.
//
// Wake may be called from any thread.
//
// Not thread-safe otherwise: call from the slot's compute thread.
class SlotTurn {
 public:
  // `turns` must outlive it.
  explicit SlotTurn(Turns* turns) : turns_(*turns) {}

  // Runs `compute`, a task's, in its turns. `cancel` and `progress` are the
  // task's.
  template <typename Compute>
  auto In(const CancelToken& cancel, TaskProgress* progress, Compute compute) {
    number_ = turns_.Begin();
    cancel_ = &cancel;
    progress_ = progress;
    Take();
    auto result = compute();
    Give();
    return result;
  }
  // Within it: runs `wait` while others compute.
  template <typename Wait>
  auto Away(Wait wait) {
    Give();
    auto result = wait();
    Take();
    return result;
  }
  void Wake() { turns_.Wake(); }

 private:
  // Until its turn comes the task is in the stage kWait.
  void Take();
  void Give() {
    if (has_it_) turns_.Give();
    has_it_ = false;
  }

  Turns& turns_;
  // Of the task.
  int64_t number_ = 0;
  const CancelToken* cancel_ = nullptr;
  TaskProgress* progress_ = nullptr;
  bool has_it_ = false;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_PIPELINE_TURNS_H_

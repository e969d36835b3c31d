// Why tasks ever wait here: the coordinator gives a worker its next task as it
// hears Ready, or as it decides a Cancel, while the worker is still about to
// end the one before. Such a task may itself be cancelled before it begins:
//
//   Add(7), Take      7 runs
//   Cancel(7)         true: it must stop
//   Add(8)            waits
//   Cancel(8)         false: it is gone, and was never computed
//   Done, Add(9), Take    9
#include "worker/task/task_queue.h"

#include <utility>

#include "common/key_proto.h"
#include "common/status_macros.h"

namespace sluice {

void TaskQueue::Add(proto::Task task) { waiting_.push_back(std::move(task)); }

bool TaskQueue::Cancel(const GradientKey& key) {
  cancelled_unstarted_ +=
      static_cast<int64_t>(std::erase_if(waiting_, [&](const proto::Task& t) {
        return KeyFromProto(t.key()) == key;
      }));
  return running_ == key;
}

bool TaskQueue::EndLife() {
  cancelled_unstarted_ += static_cast<int64_t>(waiting_.size());
  waiting_.clear();
  return running_.has_value();
}

std::optional<proto::Task> TaskQueue::Take() {
  SLUICE_CHECK(!running_.has_value());
  if (waiting_.empty()) return std::nullopt;
  proto::Task task = std::move(waiting_.front());
  waiting_.pop_front();
  running_ = KeyFromProto(task.key());
  return task;
}

}  // namespace sluice

// A worker's time in one generation is cut at each task's beginning, and each
// piece once more where the task's gradient was ready or the task ended:
//
//   issued     ready      issued   worker dies      issued    the log ends
//     |--applied--|--idle--|---lost---|----absent-----|--unfinished--|
//     life 1               life 1                     life 2
//
// So the pieces cover the time from the first task on, and none overlap.
#include "ps_server/coordinator/log/worker_time.h"

#include <algorithm>

namespace sluice {

double WorkerSeconds::Total() const {
  double total = 0;
  for (const TimeCause& cause : kTimeCauses) total += this->*cause.seconds;
  return total;
}

WorkerSeconds SumOf(const std::map<int64_t, WorkerSeconds>& workers) {
  WorkerSeconds total;
  for (const auto& [worker, time] : workers) {
    for (const TimeCause& cause : kTimeCauses) {
      total.*cause.seconds += time.*cause.seconds;
    }
  }
  return total;
}

void WorkerTime::Begin(const proto::LogHeader& header,
                       std::optional<Version> kept) {
  seconds_ = Seconds();
  present_ = std::make_unique<Present>(kept);
  if (kept.has_value() && kept->value() <= header.restored_version()) {
    present_->kept_records = 0;
  }
  now_ = 0;
}

void WorkerTime::Read(const proto::LogRecord& record) {
  now_ = record.seconds();
  present_->reader.Read(record);
  if (record.has_task()) {
    Settle(record.task().worker());
  } else if (record.has_end()) {
    Settle(record.end().worker());
  } else if (record.has_commit()) {
    for (const proto::LogEntry& entry : record.commit().entry()) {
      Settle(entry.worker());
    }
    if (present_->kept == Version(record.commit().version())) {
      present_->kept_records = present_->reader.records();
    }
  }
}

void WorkerTime::Settle(int64_t worker) {
  const auto spans = present_->reader.spans().find(worker);
  if (spans == present_->reader.spans().end()) return;
  const std::deque<TaskSpan>& tasks = spans->second;
  size_t& settled = present_->settled[worker];
  for (; settled + 1 < tasks.size() &&
         tasks[settled].outcome != proto::OUTCOME_UNSPECIFIED;
       ++settled) {
    Add(tasks[settled], &tasks[settled + 1], &seconds_[worker]);
  }
  for (; settled > recent_; --settled) present_->reader.Forget(worker);
}

double WorkerSeconds::*WorkerTime::CauseOf(const TaskSpan& task,
                                           const Present& present) {
  if (task.outcome == proto::OUTCOME_UNSPECIFIED) {
    return present.kept.has_value() ? &WorkerSeconds::lost
                                    : &WorkerSeconds::unfinished;
  }
  if (task.worker_lost || task.ended_at > present.kept_records) {
    return &WorkerSeconds::lost;
  }
  switch (task.outcome) {
    case proto::APPLIED:
      return &WorkerSeconds::applied;
    case proto::CANCELLED:
      return &WorkerSeconds::cancelled;
    case proto::DROPPED:
    case proto::REJECTED:
      return &WorkerSeconds::dropped;
    default:
      return &WorkerSeconds::lost;
  }
}

void WorkerTime::Add(const TaskSpan& task, const TaskSpan* next,
                     WorkerSeconds* time) const {
  const double until = next == nullptr ? now_ : next->issued;
  const double computed = std::min(task.computed, until);
  time->*CauseOf(task, *present_) += computed - task.issued;
  if (next != nullptr && next->incarnation != task.incarnation) {
    time->absent += until - computed;
  } else if (next != nullptr || !task.worker_lost) {
    time->idle += until - computed;
  }
}

std::map<int64_t, WorkerSeconds> WorkerTime::Seconds() const {
  std::map<int64_t, WorkerSeconds> seconds = seconds_;
  if (present_ == nullptr) return seconds;
  for (const auto& [worker, tasks] : present_->reader.spans()) {
    for (size_t i = present_->settled.at(worker); i < tasks.size(); ++i) {
      Add(tasks[i], i + 1 < tasks.size() ? &tasks[i + 1] : nullptr,
          &seconds[worker]);
    }
  }
  return seconds;
}

const TaskSpans& WorkerTime::recent() const {
  static const auto* none = new TaskSpans();
  return present_ == nullptr ? *none : present_->reader.spans();
}

std::vector<std::optional<Version>> KeptVersions(
    const std::vector<proto::LogHeader>& headers) {
  std::vector<std::optional<Version>> kept;
  std::map<int64_t, size_t> places;
  for (const proto::LogHeader& header : headers) {
    places[header.generation()] = kept.size();
    kept.push_back(Version(header.restored_version()));
  }
  if (kept.empty()) return kept;
  kept.back() = std::nullopt;
  // A generation may go on from a version that its parent had not made itself.
  int64_t last = std::numeric_limits<int64_t>::max();
  for (size_t at = kept.size() - 1;;) {
    last = std::min(last, headers[at].restored_version());
    const auto parent = places.find(headers[at].parent_generation());
    // A log that names itself or a later one as its parent is damaged.
    if (parent == places.end() || parent->second >= at) return kept;
    at = parent->second;
    kept[at] = Version(last);
  }
}

}  // namespace sluice

#include "cli/plot/activity_timeline.h"

#include <algorithm>
#include <deque>

#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/log/task_spans.h"

namespace sluice {
namespace {

Activity ActivityOf(proto::Outcome outcome) {
  switch (outcome) {
    case proto::APPLIED:
      return Activity::kApplied;
    case proto::CANCELLED:
      return Activity::kCancelled;
    case proto::DROPPED:
      return Activity::kDropped;
    case proto::REJECTED:
      return Activity::kRejected;
    default:
      return Activity::kUnfinished;
  }
}

// Whether the worker was there, without a task, from the end of this task to
// the next one.
bool WaitedAfter(const TaskSpan& task, const TaskSpan* next) {
  if (ActivityOf(task.outcome) == Activity::kUnfinished) return false;
  if (next != nullptr) return next->incarnation == task.incarnation;
  return task.delivered || task.outcome != proto::CANCELLED;
}

void AddBar(Bar bar, ActivityTimeline* timeline) {
  bar.begin = std::max(bar.begin, 0.0);
  bar.end = std::min(bar.end, timeline->end);
  if (bar.begin < bar.end) timeline->bars.push_back(bar);
}

void AddWorker(int64_t worker, const std::deque<TaskSpan>& tasks,
               ActivityTimeline* timeline) {
  timeline->workers.push_back(worker);
  AddBar({worker, 0, tasks.front().issued, Activity::kWaits}, timeline);
  for (size_t i = 0; i < tasks.size(); ++i) {
    const TaskSpan& task = tasks[i];
    if (task.issued >= timeline->end) break;
    const TaskSpan* next = i + 1 < tasks.size() ? &tasks[i + 1] : nullptr;
    const double free = next == nullptr ? timeline->end : next->issued;
    const double computed = std::min(task.computed, free);
    AddBar(
        {worker, task.issued, computed, ActivityOf(task.outcome), task.version},
        timeline);
    if (!WaitedAfter(task, next)) continue;
    AddBar({worker, computed, free, Activity::kWaits}, timeline);
  }
}

}  // namespace

double BeginOf(const CommitLog& log) {
  for (const proto::LogRecord& record : log.records) {
    if (record.has_task()) return record.seconds();
  }
  return 0;
}

double EndOfUpdate(const CommitLog& log, int64_t updates) {
  double end = 0;
  for (const proto::LogRecord& record : log.records) {
    if (!record.has_commit()) continue;
    end = record.seconds() - BeginOf(log);
    if (--updates == 0) break;
  }
  return end;
}

ActivityTimeline TimelineOf(const CommitLog& log, double end, int max_workers) {
  ActivityTimeline timeline;
  timeline.end = end;
  const TaskSpans spans = TaskSpansOf(log, BeginOf(log));
  timeline.all_workers = static_cast<int64_t>(spans.size());
  for (const auto& [worker, tasks] : spans) {
    if (static_cast<int>(timeline.workers.size()) == max_workers) break;
    AddWorker(worker, tasks, &timeline);
  }
  for (const proto::LogRecord& record : log.records) {
    const double at = record.seconds() - BeginOf(log);
    if (record.has_commit() && at <= end) timeline.updates.push_back(at);
  }
  return timeline;
}

}  // namespace sluice

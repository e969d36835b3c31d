#include "ps_server/coordinator/log/task_spans.h"

#include <algorithm>

namespace sluice {

void TaskSpansReader::Read(const proto::LogRecord& record) {
  ++records_;
  const double now = record.seconds() - origin_;
  if (record.has_task()) {
    const proto::LogTask& task = record.task();
    std::deque<TaskSpan>& of_worker = spans_[task.worker()];
    places_[{task.worker(), task.incarnation(), task.sequence()}] =
        forgotten_[task.worker()] + of_worker.size();
    of_worker.push_back({task.incarnation(), task.sequence(), now});
  } else if (record.has_end()) {
    const proto::LogEnd& end = record.end();
    TaskSpan* span = End(end, now);
    if (span == nullptr) return;
    span->outcome = static_cast<proto::Outcome>(end.outcome());
    span->delivered = end.waited_seconds() > 0;
    span->worker_lost = end.worker_lost();
  } else if (record.has_commit()) {
    for (const proto::LogEntry& entry : record.commit().entry()) {
      TaskSpan* span = End(entry, now);
      if (span == nullptr) continue;
      span->outcome = proto::APPLIED;
      span->delivered = true;
      span->version = record.commit().version();
    }
  }
}

template <typename Keyed>
TaskSpan* TaskSpansReader::End(const Keyed& of, double now) {
  const auto place =
      places_.find({of.worker(), of.incarnation(), of.sequence()});
  if (place == places_.end()) return nullptr;
  const size_t at = place->second - forgotten_[of.worker()];
  TaskSpan* span = &spans_[of.worker()][at];
  span->computed = std::max(span->issued, now - of.waited_seconds());
  span->ended_at = records_;
  return span;
}

void TaskSpansReader::Forget(int64_t worker) {
  std::deque<TaskSpan>& of_worker = spans_[worker];
  const TaskSpan& oldest = of_worker.front();
  places_.erase({worker, oldest.incarnation, oldest.sequence});
  of_worker.pop_front();
  ++forgotten_[worker];
}

TaskSpans TaskSpansOf(const CommitLog& log, double origin) {
  TaskSpansReader reader(origin);
  for (const proto::LogRecord& record : log.records) reader.Read(record);
  return reader.spans();
}

}  // namespace sluice

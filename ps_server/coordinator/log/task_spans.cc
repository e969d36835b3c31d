#include "ps_server/coordinator/log/task_spans.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace sluice {
namespace {

class SpansReader {
 public:
  SpansReader(const CommitLog& log, double origin) : origin_(origin) {
    for (const proto::LogRecord& record : log.records) Read(record);
  }
  TaskSpans Take() { return std::move(spans_); }

 private:
  void Read(const proto::LogRecord& record) {
    ++position_;
    const double now = record.seconds() - origin_;
    if (record.has_task()) {
      const proto::LogTask& task = record.task();
      std::vector<TaskSpan>& of_worker = spans_[task.worker()];
      places_[{task.worker(), task.incarnation(), task.sequence()}] =
          of_worker.size();
      of_worker.push_back({task.incarnation(), now});
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

  // Null: the log has no such task.
  template <typename Keyed>
  TaskSpan* End(const Keyed& of, double now) {
    const auto place =
        places_.find({of.worker(), of.incarnation(), of.sequence()});
    if (place == places_.end()) return nullptr;
    TaskSpan* span = &spans_[of.worker()][place->second];
    span->computed = std::max(span->issued, now - of.waited_seconds());
    span->ended_at = position_;
    return span;
  }

  const double origin_;
  size_t position_ = 0;
  TaskSpans spans_;
  std::map<std::tuple<int64_t, int64_t, int64_t>, size_t> places_;
};

}  // namespace

TaskSpans TaskSpansOf(const CommitLog& log, double origin) {
  return SpansReader(log, origin).Take();
}

}  // namespace sluice

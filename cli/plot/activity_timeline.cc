#include "cli/plot/activity_timeline.h"

#include <algorithm>
#include <limits>
#include <map>
#include <tuple>

#include "proto/coordinator.pb.h"

namespace sluice {
namespace {

// A task, from the record of its beginning to that of its end.
struct Life {
  int64_t incarnation = 0;
  double issued = 0;
  double computed = std::numeric_limits<double>::infinity();
  Activity activity = Activity::kUnfinished;
  int64_t version = 0;
  bool delivered = false;  // Its gradient became ready.
};

// Of every worker, in order.
using Lives = std::map<int64_t, std::vector<Life>>;

Activity ActivityOf(int outcome) {
  switch (outcome) {
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

class LivesReader {
 public:
  explicit LivesReader(const CommitLog& log) : begin_(BeginOf(log)) {
    for (const proto::LogRecord& record : log.records) Read(record);
  }
  const Lives& lives() const { return lives_; }

 private:
  void Read(const proto::LogRecord& record) {
    const double now = record.seconds() - begin_;
    if (record.has_task()) {
      const proto::LogTask& task = record.task();
      std::vector<Life>& of_worker = lives_[task.worker()];
      places_[{task.worker(), task.incarnation(), task.sequence()}] =
          of_worker.size();
      of_worker.push_back({task.incarnation(), now});
    } else if (record.has_end()) {
      const proto::LogEnd& end = record.end();
      Life* life = Find(end);
      if (life == nullptr) return;
      life->activity = ActivityOf(end.outcome());
      life->delivered = end.waited_seconds() > 0;
      life->computed = std::max(life->issued, now - end.waited_seconds());
    } else if (record.has_commit()) {
      for (const proto::LogEntry& entry : record.commit().entry()) {
        Life* life = Find(entry);
        if (life == nullptr) continue;
        life->activity = Activity::kApplied;
        life->delivered = true;
        life->version = record.commit().version();
        life->computed = std::max(life->issued, now - entry.waited_seconds());
      }
    }
  }

  // Null: the log has no such task.
  template <typename Keyed>
  Life* Find(const Keyed& of) {
    const auto place =
        places_.find({of.worker(), of.incarnation(), of.sequence()});
    if (place == places_.end()) return nullptr;
    return &lives_[of.worker()][place->second];
  }

  const double begin_;
  Lives lives_;
  std::map<std::tuple<int64_t, int64_t, int64_t>, size_t> places_;
};

// Whether the worker was there, without a task, from the end of this task to
// the next one.
bool WaitedAfter(const Life& life, const Life* next) {
  if (life.activity == Activity::kUnfinished) return false;
  if (next != nullptr) return next->incarnation == life.incarnation;
  return life.delivered || life.activity != Activity::kCancelled;
}

void AddBar(Bar bar, ActivityTimeline* timeline) {
  bar.begin = std::max(bar.begin, 0.0);
  bar.end = std::min(bar.end, timeline->end);
  if (bar.begin < bar.end) timeline->bars.push_back(bar);
}

void AddWorker(int64_t worker, const std::vector<Life>& lives,
               ActivityTimeline* timeline) {
  timeline->workers.push_back(worker);
  AddBar({worker, 0, lives.front().issued, Activity::kWaits}, timeline);
  for (size_t i = 0; i < lives.size(); ++i) {
    const Life& life = lives[i];
    if (life.issued >= timeline->end) break;
    const Life* next = i + 1 < lives.size() ? &lives[i + 1] : nullptr;
    const double free = next == nullptr ? timeline->end : next->issued;
    const double computed = std::min(life.computed, free);
    AddBar({worker, life.issued, computed, life.activity, life.version},
           timeline);
    if (!WaitedAfter(life, next)) continue;
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
  const LivesReader reader(log);
  timeline.all_workers = static_cast<int64_t>(reader.lives().size());
  for (const auto& [worker, lives] : reader.lives()) {
    if (static_cast<int>(timeline.workers.size()) == max_workers) break;
    AddWorker(worker, lives, &timeline);
  }
  for (const proto::LogRecord& record : log.records) {
    const double at = record.seconds() - BeginOf(log);
    if (record.has_commit() && at <= end) timeline.updates.push_back(at);
  }
  return timeline;
}

}  // namespace sluice

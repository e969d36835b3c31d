#ifndef SLUICE_PS_SERVER_COORDINATOR_LOG_TASK_SPANS_H_
#define SLUICE_PS_SERVER_COORDINATOR_LOG_TASK_SPANS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <tuple>

#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/log/commit_log_file.h"

namespace sluice {

// A task, from the record of its beginning to that of its end. Times are in
// seconds.
struct TaskSpan {
  int64_t incarnation = 0;
  int64_t sequence = 0;
  double issued = 0;
  // When every shard held its gradient, or, if that never was, when the task
  // ended.
  double computed = std::numeric_limits<double>::infinity();
  // OUTCOME_UNSPECIFIED: it has not ended where the log does.
  proto::Outcome outcome = proto::OUTCOME_UNSPECIFIED;
  int64_t version = 0;       // That its gradient made, if applied.
  bool delivered = false;    // Every shard held its gradient.
  bool worker_lost = false;  // The worker's life was over before that.
  size_t ended_at = 0;       // The record of its end, counted from 1.
};

// Of every worker, in the order in which the tasks were issued.
using TaskSpans = std::map<int64_t, std::deque<TaskSpan>>;

// Reads the tasks of one generation, record by record.
class TaskSpansReader {
 public:
  // Times count from `origin`, in seconds of the log's own time.
  explicit TaskSpansReader(double origin) : origin_(origin) {}

  // An end whose task has not been read is left out.
  void Read(const proto::LogRecord& record);
  // Forgets the worker's oldest task.
  void Forget(int64_t worker);

  const TaskSpans& spans() const { return spans_; }
  size_t records() const { return records_; }  // That were read.

 private:
  // Null: there is no such task.
  template <typename Keyed>
  TaskSpan* End(const Keyed& of, double now);

  const double origin_;
  size_t records_ = 0;
  TaskSpans spans_;
  std::map<int64_t, size_t> forgotten_;  // By worker.
  // (worker, incarnation, sequence) -> how many tasks of the worker are before
  // it, those that are forgotten included.
  std::map<std::tuple<int64_t, int64_t, int64_t>, size_t> places_;
};

// The tasks of `log`.
TaskSpans TaskSpansOf(const CommitLog& log, double origin);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_LOG_TASK_SPANS_H_

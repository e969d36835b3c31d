#ifndef SLUICE_PS_SERVER_COORDINATOR_LOG_TASK_SPANS_H_
#define SLUICE_PS_SERVER_COORDINATOR_LOG_TASK_SPANS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <vector>

#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/log/commit_log_file.h"

namespace sluice {

// A task, from the record of its beginning to that of its end. Times are in
// seconds.
struct TaskSpan {
  int64_t incarnation = 0;
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
using TaskSpans = std::map<int64_t, std::vector<TaskSpan>>;

// The tasks of `log`. Their times count from `origin`, in seconds of the log's
// own time. An end whose task the log does not have is left out.
TaskSpans TaskSpansOf(const CommitLog& log, double origin);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_LOG_TASK_SPANS_H_

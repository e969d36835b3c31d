#ifndef SLUICE_WORKER_PIPELINE_ANSWER_MERGER_H_
#define SLUICE_WORKER_PIPELINE_ANSWER_MERGER_H_

#include <functional>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/ids.h"
#include "proto/coordinator.pb.h"

namespace sluice {

// Makes one answer to a task of this member's and of what those behind it say:
// Ready when all are, with their bases behind this one's, the loss of the last
// stage, and of each time the longest, since they run beside each other.
// Rejected as soon as one is.
//
// Thread-safe.
class AnswerMerger {
 public:
  // `send` is called once for each task, on the thread of the later answer.
  explicit AnswerMerger(std::function<void(proto::ToCoordinator)> send)
      : send_(std::move(send)) {}

  // `answer` is Ready or Rejected.
  void Own(const proto::ToCoordinator& answer) { Put(answer, &own_); }
  void Behind(const proto::ToCoordinator& answer) { Put(answer, &behind_); }

 private:
  using Held = std::optional<proto::ToCoordinator>;

  void Put(const proto::ToCoordinator& answer, Held* side);

  const std::function<void(proto::ToCoordinator)> send_;

  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  GradientKey task_ ABSL_GUARDED_BY(mu_);  // The latest that was answered.
  bool answered_ ABSL_GUARDED_BY(mu_) = false;
  Held own_ ABSL_GUARDED_BY(mu_), behind_ ABSL_GUARDED_BY(mu_);
};

}  // namespace sluice

#endif  // SLUICE_WORKER_PIPELINE_ANSWER_MERGER_H_

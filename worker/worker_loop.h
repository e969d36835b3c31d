#ifndef SLUICE_WORKER_WORKER_LOOP_H_
#define SLUICE_WORKER_WORKER_LOOP_H_

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/telemetry/shared_counters.h"
#include "proto/coordinator.pb.h"
#include "worker/task/task_inbox.h"
#include "worker/task/timeline.h"
#include "worker/trainer.h"
#include "worker/worker_counters.h"

namespace sluice {

// Takes one task after the other, has it carried out and says what came of
// it, until the inbox is closed.
//
// Not thread-safe: call from the compute thread.
class WorkerLoop {
 public:
  // `send` hands a message to the coordinator's session. `coordinator` is whom
  // to name while waiting. Every task is added to `timeline`, unless it is
  // null. All pointers must outlive the loop.
  WorkerLoop(std::string coordinator, TaskInbox* inbox, Trainer* trainer,
             SharedCounters<WorkerCounters>* counters,
             std::function<void(proto::ToCoordinator)> send,
             Timeline* timeline = nullptr);

  // Blocks until the inbox is closed (OK), or a task failed in a way that
  // forbids to go on: says what and, where it is one, which shard.
  absl::Status Run();

 private:
  // Longer than any healthy wait for a task, so that a line means something.
  static constexpr absl::Duration kLogEvery = absl::Seconds(10);

  absl::Status RunTask(const proto::Task& task);
  void Deliver(const proto::Task& task, const Trainer::Answer& answer);
  void Record(const proto::Task& task,
              const absl::StatusOr<Trainer::Answer>& answer);
  void CountCancelled(const proto::Task& task, const absl::Status& why);
  void CountOverflows(const proto::Task& task);

  // Constant after construction.
  const std::string coordinator_;
  TaskInbox& inbox_;
  Trainer& trainer_;
  SharedCounters<WorkerCounters>& counters_;
  const std::function<void(proto::ToCoordinator)> send_;
  Timeline* const timeline_;

  double delivered_compute_seconds_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_WORKER_LOOP_H_

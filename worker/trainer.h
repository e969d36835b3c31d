#ifndef SLUICE_WORKER_TRAINER_H_
#define SLUICE_WORKER_TRAINER_H_

#include <functional>
#include <memory>
#include <variant>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/job/delay_model.h"
#include "proto/coordinator.pb.h"
#include "worker/exchange/exchange.h"
#include "worker/model/model.h"
#include "worker/task/cancel_token.h"
#include "worker/task/task_gradient.h"
#include "worker/task/task_progress.h"

namespace sluice {

// Carries out tasks: pull, compute, push, each beside the one before it as far
// as it can: forward begins with the first weights that are there, and the push
// with the gradient's last part (flow.h). What a task gives is a function of
// the task and the weights alone; nothing persists from one to the next but
// memory that is written before it is read, and times.
//
// Not thread-safe: call from the compute thread.
class Trainer {
 public:
  struct Options {
    Clock* clock = Clock::Real();
    // The job's injected stragglers, and how they pass the time: says whether
    // the task was cancelled meanwhile.
    ComputeDelay delay;
    std::function<bool(absl::Duration, const CancelToken&)> wait =
        [](absl::Duration time, const CancelToken& cancel) {
          return cancel.WaitFor(time);
        };
  };
  // All pointers must outlive the trainer.
  Trainer(const Options& options, TaskGradient* gradient, Exchange* exchange);
  ~Trainer();

  // The gradient is staged on every shard, or a shard refused it.
  using Answer = std::variant<proto::Ready, proto::Rejected>;

  // Blocks. kAborted: the task was cancelled or is over, and its computation
  // has stopped; no answer is due. Other errors name what failed; the worker
  // cannot go on.
  absl::StatusOr<Answer> Run(const proto::Task& task,
                             const CancelToken& cancel);

  // There is time until the next task comes.
  void PrepareNext() { task_gradient_.PrepareNext(); }

  // A Ready that Run returns has travelled with the gradient: the coordinator
  // has it.
  bool told() const;
  // Of the last Run.
  const TaskProgress& progress() const { return progress_; }
  // Gradients that it computed again because FP16 overflowed, if the task's was
  // computed to its end.
  int overflows() const { return overflows_; }

 private:
  class PulledWeights;
  class PushedGradient;

  absl::StatusOr<Answer> RunStages(const proto::Task& task,
                                   const CancelToken& cancel);
  // Takes the time that the job adds to the task's computation, which begins
  // when the weights are there.
  absl::Status Straggle(const proto::Task& task, const CancelToken& cancel);
  // Makes the task's gradient, once more where a shard's weights changed under
  // it.
  absl::StatusOr<Model::Result> Compute(const proto::Task& task,
                                        const CancelToken& cancel);
  proto::Ready MakeReady(const proto::Task& task,
                         const Model::Result& computed) const;

  // Constant after construction.
  const Options options_;

  TaskGradient& task_gradient_;

  // Written by every task before it is read.
  TaskProgress progress_;
  const std::unique_ptr<PulledWeights> weights_;
  const std::unique_ptr<PushedGradient> gradient_;
  int overflows_ = 0;

  double push_seconds_ = 0;  // Of the last task that was delivered.
};

}  // namespace sluice

#endif  // SLUICE_WORKER_TRAINER_H_

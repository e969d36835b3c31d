#ifndef SLUICE_WORKER_TASK_TASK_GRADIENT_H_
#define SLUICE_WORKER_TASK_TASK_GRADIENT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/ids.h"
#include "common/process/shared_memory.h"
#include "worker/model/model.h"
#include "worker/task/cancel_token.h"
#include "worker/task/flow.h"
#include "worker/task/task_progress.h"

namespace sluice {

// What computes the gradient of a task: of one mini-batch, or of several with
// local steps. It owns the memory in which weights and gradient lie, so that
// they can be where it computes:
//
//   NativeGradient    the job's layers, in this process
//   ExternalGradient  a process of the user's, in memory that both share
//
// Wake and Abandon may be called from any thread.
//
// Not thread-safe: call from the compute thread.
class TaskGradient {
 public:
  virtual ~TaskGradient() = default;

  // Memory for the flat vector: for weights twice, so that the next ones can
  // come while a task reads its own. The same in each call, with anything in
  // it; the first one may allocate it. REQUIRES: `which` is 0 or 1.
  virtual absl::Span<float> Weights(int which) = 0;
  // Whether the weights of a Compute are looked at until the next one, as by
  // what a program of the user's does behind its step.
  virtual bool keeps_weights() const { return false; }
  virtual absl::Span<float> Gradient() = 0;
  // The memory of Gradient(), where other processes could map it; else nullptr.
  virtual const SharedMemory* SharedGradient() { return nullptr; }

  // Consecutive mini-batches, with steps of plain SGD between them.
  struct Batches {
    GradientKey task = {};
    BatchId first;
    int count = 1;
    float rate = 0;
  };

  // As Model::ComputeGradient of `batches`. For ExternalGradient the values of
  // `weights` and `gradient` must be the memory above. Blocks. Errors other
  // than kAborted, which says that `cancel` was set, end the worker's life.
  virtual absl::StatusOr<OrRestarted<Model::Result>> Compute(
      const Batches& batches, WeightSource& weights, GradientSink& gradient,
      const CancelToken& cancel, TaskProgress* progress) = 0;

  // What it computes with beside the job that the other workers must have too,
  // such as a model process's frozen parameters, as a text; empty: nothing.
  virtual std::string OwnInput() const { return ""; }

  // There is time until the next task comes: what it needs may be made ready.
  virtual void PrepareNext() {}

  // Makes a waiting Compute look at its cancel token. From any thread.
  virtual void Wake() {}
  // No task will follow: a Compute that is under way ends within a few seconds.
  // From any thread.
  virtual void Abandon() {}
  // The run has ended well: returns when a process of the user's has done what
  // it does then, or has been killed since limits.model_process_end_s are over.
  // REQUIRES: no other call follows.
  virtual void LetEnd() {}
  // Whether nothing more can be computed with it, but with another one.
  virtual bool broken() const { return false; }
};

}  // namespace sluice

#endif  // SLUICE_WORKER_TASK_TASK_GRADIENT_H_

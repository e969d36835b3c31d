#ifndef SLUICE_WORKER_COMPUTE_COMPUTE_CONTEXT_H_
#define SLUICE_WORKER_COMPUTE_COMPUTE_CONTEXT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/ids.h"
#include "common/job/resolved_job.h"
#include "kernels/device.h"
#include "worker/compute/version_measure.h"
#include "worker/data/data_source.h"
#include "worker/evaluator.h"
#include "worker/model/model.h"
#include "worker/pipeline/turns.h"
#include "worker/task/task_gradient.h"

namespace sluice {

class GroupLinks;

// What a worker or an evaluator computes with: all of it that needs no network.
// It is made in two steps, because which vector instructions the run computes
// with is known only to those who have joined:
//
//   Make...Context    the device, the data, a model process: what may fail for
//                     reasons of this machine
//   Build             the model, and what computes with it
//
// The compute thread must have called Enter.
struct ComputeContext {
  // Makes what is missing, once the run's instructions are known (Welcome);
  // unspecified: the process computes with its own. May be repeated.
  absl::Status Build(const proto::Job& job, proto::InstructionSet run);

  // What Build does; null: nothing is missing.
  std::function<absl::Status(ComputeContext*)> build;
  // All null where a model process computes. `model` is the stage's of a
  // member.
  std::unique_ptr<kernels::Device> device;
  std::unique_ptr<Model> model;
  std::shared_ptr<const DataSource> data;
  // Null for measuring.
  std::unique_ptr<TaskGradient> gradient;
  // Null for training.
  std::unique_ptr<VersionMeasure> measure;
  // How often the worker has made it anew because it was broken.
  int64_t restarts = 0;

  // Sets the calling thread's numeric mode and enters it into the device.
  void Enter() const;
  // What computes, for people.
  std::string DeviceName() const;
  // What decides the bits of the gradients besides the job. It takes time.
  std::map<std::string, std::string> Inputs() const;
  // The same of what is measured, in which the evaluator must agree with the
  // workers.
  std::map<std::string, std::string> InputsOfMeasure() const;
};

// A split of the job's data, as OpenDataSource with `inputs`. Damaged samples
// are logged.
absl::StatusOr<std::unique_ptr<DataSource>> OpenData(const ResolvedJob& job,
                                                     Split split,
                                                     bool inputs = true);

// Built, for worker `id`'s gradients of the training split, JobMicroBatch(job)
// samples at a time. `data`: the split, where it is open already. Errors name
// the file or the device.
absl::StatusOr<ComputeContext> MakeTrainingContext(
    const ResolvedJob& job, WorkerId id,
    std::shared_ptr<const DataSource> data = nullptr);
// The same for a worker that was given `command`, not built: with
// model.external it starts the model process, whose errors are those of
// ModelProcess::Start, else `command` is empty. `job` outlives the context.
// REQUIRES: the calling thread lives as long as the process is to.
absl::StatusOr<ComputeContext> MakeWorkerContext(
    const ResolvedJob& job, WorkerId id,
    const std::vector<std::string>& command);
// The same for a slot of a group's member: of its stage's job, in the turns of
// `turn`, and beside its neighbours; all outlive the context.
absl::StatusOr<ComputeContext> MakeMemberContext(
    const ResolvedJob& stage_job, WorkerId id,
    std::shared_ptr<const DataSource> data, SlotTurn* turn, GroupLinks* links);

// Built, for measuring the test split, evaluation.batch_size samples at a time,
// on worker 0's GPU if on any. `data` and errors as above.
absl::StatusOr<ComputeContext> MakeTestContext(
    const ResolvedJob& job, std::shared_ptr<const DataSource> data = nullptr);
// The same of one stage after the other, where the model is cut into several.
absl::StatusOr<ComputeContext> MakeStagedTestContext(const ResolvedJob& job);
// The same for an evaluator that was given `command`, not built: with
// model.external it starts the model process as above, or measures nothing
// where the job has no test samples, and `command` is empty. `job` outlives the
// context.
absl::StatusOr<ComputeContext> MakeEvaluatorContext(
    const ResolvedJob& job, const std::vector<std::string>& command);

// What the job says of an evaluator. `weights_path`: where it writes the final
// version; empty: nowhere.
Evaluator::Options EvaluatorOptionsFromJob(const ResolvedJob& job,
                                           std::string weights_path);

}  // namespace sluice

#endif  // SLUICE_WORKER_COMPUTE_COMPUTE_CONTEXT_H_

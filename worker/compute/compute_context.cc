// Who computes what, from the job and the process's role:
//
//   worker               data, device  ->  Model          ->  NativeGradient
//   worker of a stage    data, device  ->  StageModel     ->  SlotGradient
//   worker, external     a process of the user's          ->  ExternalGradient
//   evaluator            data, device  ->  Model          ->  NativeMeasure
//   evaluator, stages    data, device  ->  StageModels    ->  StagedMeasure
//   evaluator, external  a process of the user's          ->  ExternalMeasure
//
// A daemon's built-in model is made in Build, when the run's instructions are
// known; other commands have it at once. An external evaluator without a
// command measures nothing (NoMeasure).
#include "worker/compute/compute_context.h"

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/time/time.h"
#include "common/job/group.h"
#include "common/process/named_thread.h"
#include "common/process/run_on_threads.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"
#include "kernels/numerics.h"
#include "third_party/spdlog.h"
#include "worker/compute/job_sampling.h"
#include "worker/compute/measure.h"
#include "worker/compute/native_gradient.h"
#include "worker/external/external_gradient.h"
#include "worker/external/external_measure.h"
#include "worker/model/make_device.h"
#include "worker/pipeline/group_links.h"
#include "worker/pipeline/slot_gradient.h"
#include "worker/pipeline/stage_gradient.h"
#include "worker/pipeline/staged_measure.h"

namespace sluice {
namespace {

constexpr char kOwnInput[] = "input of the model process";

void LogRefusal(const absl::Status& why) {
  spdlog::warn("event=not_recorded reason={}", LogValue(why.message()));
}

void LogFallback(const std::string& what) {
  spdlog::info("event=library_fallback what={}", LogValue(what));
}

// Ever less often, as they become many.
void LogDamage(const absl::Status& damage, int64_t total) {
  if ((total & (total - 1)) != 0) return;
  spdlog::warn("event=sample_damaged reason={} damaged_samples_total={}",
               LogValue(damage.message()), total);
}

int64_t DecodingThreads(const proto::Job& job) {
  const int threads = job.data().jpeg().threads();
  return threads > 0 ? threads
                     : std::max(1U, std::thread::hardware_concurrency());
}

// The device of the workers' process `process`, and the data, unless it is
// given.
absl::StatusOr<ComputeContext> OpenContext(
    const ResolvedJob& job, int64_t process, Split split,
    std::shared_ptr<const DataSource> data) {
  ComputeContext context;
  SLUICE_ASSIGN_OR_RETURN(context.device,
                          MakeDevice(job.job.worker(), process, LogFallback));
  context.data = std::move(data);
  if (context.data != nullptr) return context;
  SLUICE_ASSIGN_OR_RETURN(context.data, OpenData(job, split));
  return context;
}

absl::Status BuildGradient(const ResolvedJob& job, ComputeContext* context) {
  SLUICE_ASSIGN_OR_RETURN(
      context->model,
      Model::Create(job, JobMicroBatch(job), context->device.get(),
                    {.on_refused = LogRefusal}));
  context->gradient = std::make_unique<NativeGradient>(
      JobNativeGradient(job), context->data.get(), context->model.get());
  return absl::OkStatus();
}

absl::Status BuildMeasure(const ResolvedJob& job, ComputeContext* context) {
  NativeMeasure::Options options;
  options.batch_size = job.job.evaluation().batch_size();
  options.classification = job.data.classification;
  options.parameters = job.layout.size();
  SLUICE_ASSIGN_OR_RETURN(
      context->model,
      Model::Create(job, options.batch_size, context->device.get(),
                    {.on_refused = LogRefusal}));
  context->measure = std::make_unique<NativeMeasure>(
      options, context->data.get(), context->model.get());
  return absl::OkStatus();
}

absl::Status BuildStagedMeasure(const ResolvedJob& job,
                                ComputeContext* context) {
  SLUICE_ASSIGN_OR_RETURN(
      context->measure,
      StagedMeasure::Create(job, context->data.get(), context->device.get()));
  return absl::OkStatus();
}

absl::Status BuildStage(const ResolvedJob& stage_job, SlotTurn* turn,
                        GroupLinks* links, ComputeContext* context) {
  SLUICE_ASSIGN_OR_RETURN(
      std::unique_ptr<StageModel> stage,
      StageModel::Create(stage_job, links->place(), JobMicroBatch(stage_job),
                         context->device.get()));
  StageModel* const stage_model = stage.get();
  SLUICE_ASSIGN_OR_RETURN(
      context->model,
      Model::On(context->device.get(), stage_job.layout, std::move(stage)));
  context->gradient = std::make_unique<SlotGradient>(
      std::make_unique<StageGradient>(
          StageGradient::Options{.native = JobNativeGradient(stage_job),
                                 .place = links->place(),
                                 .wake = [links] { links->Wake(); }},
          context->data.get(), stage_model, context->model.get()),
      turn);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataSource>> OpenData(const ResolvedJob& job,
                                                     Split split, bool inputs) {
  return OpenDataSource(
      job.job.data(), split, job.job.seed(),
      {.on_damage = LogDamage,
       .run =
           [threads = DecodingThreads(job.job)](int64_t most,
                                                const auto& work) {
             RunOnThreads(
                 std::min(threads, most),
                 [&] { return StartThread("decode samples", work); }, work);
           },
       .inputs = inputs});
}

void ComputeContext::Enter() const {
  kernels::SetNumericMode();
  if (device != nullptr) device->EnterThread();
}

std::string ComputeContext::DeviceName() const {
  return device != nullptr ? device->Description() : "a model process";
}

std::map<std::string, std::string> ComputeContext::Inputs() const {
  std::map<std::string, std::string> inputs;
  inputs["device"] = DeviceName();
  const std::string digest = data != nullptr ? data->Digest() : "";
  if (!digest.empty()) inputs["training data"] = "sha256 " + digest;
  const std::string own = gradient != nullptr ? gradient->OwnInput() : "";
  if (!own.empty()) inputs[kOwnInput] = own;
  return inputs;
}

std::map<std::string, std::string> ComputeContext::InputsOfMeasure() const {
  const std::string own = measure != nullptr ? measure->OwnInput() : "";
  if (own.empty()) return {};
  return {{kOwnInput, own}};
}

absl::Status ComputeContext::Build(const proto::Job& job,
                                   proto::InstructionSet run) {
  if (build == nullptr) return absl::OkStatus();
  SLUICE_RETURN_IF_ERROR(ComputeWith(job, run));
  return std::exchange(build, nullptr)(this);
}

absl::StatusOr<ComputeContext> MakeTrainingContext(
    const ResolvedJob& job, WorkerId id,
    std::shared_ptr<const DataSource> data) {
  SLUICE_ASSIGN_OR_RETURN(
      ComputeContext context,
      OpenContext(job, id.value(), Split::kTrain, std::move(data)));
  SLUICE_RETURN_IF_ERROR(BuildGradient(job, &context));
  return context;
}

absl::StatusOr<ComputeContext> MakeWorkerContext(
    const ResolvedJob& job, WorkerId id,
    const std::vector<std::string>& command) {
  if (job.job.model().has_external()) {
    ComputeContext context;
    SLUICE_ASSIGN_OR_RETURN(
        context.gradient,
        ExternalGradient::Start(job, JobSampling(job), id, command));
    return context;
  }
  SLUICE_ASSIGN_OR_RETURN(ComputeContext context,
                          OpenContext(job, id.value(), Split::kTrain, nullptr));
  context.build = [&job](ComputeContext* to) { return BuildGradient(job, to); };
  return context;
}

absl::StatusOr<ComputeContext> MakeMemberContext(
    const ResolvedJob& stage_job, WorkerId id,
    std::shared_ptr<const DataSource> data, SlotTurn* turn, GroupLinks* links) {
  SLUICE_ASSIGN_OR_RETURN(
      ComputeContext context,
      OpenContext(stage_job, ProcessOf(stage_job.job, id, links->member()),
                  Split::kTrain, std::move(data)));
  context.build = [&stage_job, turn, links](ComputeContext* to) {
    return BuildStage(stage_job, turn, links, to);
  };
  return context;
}

absl::StatusOr<ComputeContext> MakeTestContext(
    const ResolvedJob& job, std::shared_ptr<const DataSource> data) {
  SLUICE_ASSIGN_OR_RETURN(ComputeContext context,
                          OpenContext(job, 0, Split::kTest, std::move(data)));
  SLUICE_RETURN_IF_ERROR(BuildMeasure(job, &context));
  return context;
}

absl::StatusOr<ComputeContext> MakeStagedTestContext(const ResolvedJob& job) {
  SLUICE_ASSIGN_OR_RETURN(ComputeContext context,
                          OpenContext(job, 0, Split::kTest, nullptr));
  SLUICE_RETURN_IF_ERROR(BuildStagedMeasure(job, &context));
  return context;
}

absl::StatusOr<ComputeContext> MakeEvaluatorContext(
    const ResolvedJob& job, const std::vector<std::string>& command) {
  if (job.job.model().has_external()) {
    ComputeContext context;
    if (command.empty()) {
      context.measure = std::make_unique<NoMeasure>(job.layout.size());
      return context;
    }
    SLUICE_ASSIGN_OR_RETURN(context.measure,
                            ExternalMeasure::Start(job, command));
    return context;
  }
  SLUICE_ASSIGN_OR_RETURN(ComputeContext context,
                          OpenContext(job, 0, Split::kTest, nullptr));
  const auto build =
      StageCount(job.job) > 1 ? BuildStagedMeasure : BuildMeasure;
  context.build = [&job, build](ComputeContext* to) { return build(job, to); };
  return context;
}

Evaluator::Options EvaluatorOptionsFromJob(const ResolvedJob& job,
                                           std::string weights_path) {
  Evaluator::Options options;
  options.weights_path = std::move(weights_path);
  // As long as the coordinator waits for one that is made again.
  options.deadline = 2 * absl::Seconds(job.job.limits().task_deadline_s());
  options.storage_timeout = absl::Seconds(job.job.limits().storage_timeout_s());
  return options;
}

}  // namespace sluice

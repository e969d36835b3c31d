// To the trainer a model process is one more TaskGradient. What differs:
//
//   * It begins when all weights are there, since nobody knows which of them it
//     reads first; so nothing of the pull is hidden behind its forward.
//   * It is told which samples, not their values, and those of the task that
//     probably comes next, so that it can read them meanwhile. Worker 1 of 3,
//     one step a task: task 4, and next task 7.
//   * That backward has begun shows when the first tensor is final.
#include "worker/external/external_gradient.h"

#include "absl/time/time.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

using Kind = ModelDescription::Kind;

Kind KindOf(proto::ExternalTensor::Kind kind) {
  switch (kind) {
    case proto::ExternalTensor::BIAS:
      return Kind::kBias;
    case proto::ExternalTensor::NORM:
      return Kind::kNorm;
    case proto::ExternalTensor::STATISTIC:
      return Kind::kStatistic;
    default:  // The job is valid.
      return Kind::kWeight;
  }
}

}  // namespace

ModelDescription DescriptionOf(const ResolvedJob& job, WorkerId id) {
  ModelDescription description;
  description.job = job.job.name();
  description.seed = job.job.seed();
  description.worker = id.value();
  description.threads = job.job.worker().threads();
  description.batch_size = job.job.data().batch_size();
  description.train_samples = job.data.train_samples;
  description.test_samples = job.data.test_samples;
  if (job.job.data().sharding() == proto::Data::STATIC) {
    description.partitions = job.job.cluster().workers();
  }
  description.parameters = job.layout.size();
  for (size_t i = 0; i < job.layout.tensors().size(); ++i) {
    const TensorSpec& tensor = job.layout.tensors()[i];
    const auto kind = job.job.model().external().tensor(i).kind();
    description.tensors.push_back({.name = tensor.name,
                                   .shape = tensor.shape,
                                   .offset = tensor.offset,
                                   .kind = KindOf(kind)});
  }
  return description;
}

namespace {

// Backward begins, as far as a worker can see, when something is final.
class TimedGradient final : public GradientSink {
 public:
  TimedGradient(GradientSink* gradient, TaskProgress* progress)
      : gradient_(*gradient), progress_(*progress) {}

  absl::Span<float> values() override { return gradient_.values(); }
  absl::Status FinalFrom(int64_t from) override {
    progress_.Enter(Stage::kBackward);
    return gradient_.FinalFrom(from);
  }

 private:
  GradientSink& gradient_;
  TaskProgress& progress_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExternalGradient>> ExternalGradient::Start(
    const ResolvedJob& job, const BatchSampling& sampling, WorkerId id,
    std::vector<std::string> command) {
  ModelProcess::Options options;
  options.command = std::move(command);
  options.description = DescriptionOf(job, id);
  const int64_t steps = job.job.sync().local_steps();
  options.most_batches = 2 * steps;  // Those of a task and of the next one.
  options.most_indices = options.most_batches * job.job.data().batch_size();
  // Nobody waits for it any longer.
  options.start_limit = absl::Seconds(job.job.limits().start_timeout_s());
  options.silence_limit = absl::Seconds(job.job.limits().task_deadline_s());
  options.end_limit = absl::Seconds(job.job.limits().model_process_end_s());
  SLUICE_ASSIGN_OR_RETURN(std::unique_ptr<ModelProcess> process,
                          ModelProcess::Start(std::move(options)));
  return std::unique_ptr<ExternalGradient>(new ExternalGradient(
      sampling, steps * job.job.cluster().workers(), std::move(process)));
}

ModelProcess::Batches ExternalGradient::BatchesFrom(BatchId first,
                                                    int count) const {
  ModelProcess::Batches batches = {.first = first};
  for (int i = 0; i < count; ++i) {
    const std::vector<int64_t> samples =
        BatchSamples(sampling_, BatchId(first.value() + i));
    batches.sizes.push_back(samples.size());
    batches.indices.insert(batches.indices.end(), samples.begin(),
                           samples.end());
  }
  return batches;
}

absl::StatusOr<OrRestarted<Model::Result>> ExternalGradient::Compute(
    const Batches& batches, WeightSource& weights, GradientSink& gradient,
    const CancelToken& cancel, TaskProgress* progress) {
  SLUICE_ASSIGN_OR_RETURN(const auto there,
                          weights.WaitUntil(weights.values().size()));
  if (IsRestarted(there)) return Restarted{};
  const ModelProcess::Task task = {
      .batches = BatchesFrom(batches.first, batches.count),
      .rate = batches.rate,
      .next = BatchesFrom(likely_.After(batches.first, batches.count),
                          batches.count)};
  progress->Enter(Stage::kForward);
  TimedGradient timed(&gradient, progress);
  SLUICE_ASSIGN_OR_RETURN(
      const Model::Result result,
      process_->Compute(task, weights.values(), timed, cancel));
  return result;
}

}  // namespace sluice

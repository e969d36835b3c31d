#include "worker/reference/reference_trainer.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "absl/status/status.h"
#include "common/batch_grid.h"
#include "common/job/initial_weights.h"
#include "common/job/job_learning_rate.h"
#include "common/job/learning_rate.h"
#include "common/status_macros.h"
#include "common/wire/job_wire_types.h"
#include "common/wire/wire_format.h"
#include "worker/compute/job_sampling.h"
#include "worker/compute/native_gradient.h"
#include "worker/data/batch_samples.h"
#include "worker/reference/weights_digest.h"
#include "worker/task/cancel_token.h"
#include "worker/task/flow.h"

namespace sluice {
namespace {

// One task's part of an update.
struct Gradient {
  std::vector<float> values;
  int64_t samples = 0;
  int batches = 0;

  // Samples of its mean mini-batch: what it counts.
  double weight() const { return static_cast<double>(samples) / batches; }
};

absl::Status CheckSupported(const proto::Job& job) {
  const proto::Stop& stop = job.stop();
  if (job.sync().policy() != proto::SYNC) {
    return absl::InvalidArgumentError("the reference trainer does SYNC only");
  }
  if (stop.has_seconds() || stop.has_target_accuracy()) {
    return absl::InvalidArgumentError(
        "the reference trainer stops by epochs and updates only");
  }
  return absl::OkStatus();
}

// Mini-batches of the whole run.
int64_t TotalBatches(const ResolvedJob& job) {
  if (!job.job.stop().has_epochs()) return std::numeric_limits<int64_t>::max();
  const BatchSampling sampling = JobSampling(job);
  const BatchGrid grid(sampling.train_samples, sampling.batch_size,
                       sampling.partitions);
  const double batches =
      job.job.stop().epochs() * static_cast<double>(grid.batches_per_epoch());
  // The margin keeps 0.07 epochs of 100 mini-batches at 7, not 8.
  return static_cast<int64_t>(std::ceil(batches - 1e-12 * batches));
}

int64_t TotalUpdates(const proto::Stop& stop) {
  return stop.has_updates() ? stop.updates()
                            : std::numeric_limits<int64_t>::max();
}

std::vector<float> WeightedSum(const std::vector<Gradient>& gradients) {
  double total = 0;
  for (const Gradient& g : gradients) total += g.weight();
  std::vector<float> sum;
  for (const Gradient& g : gradients) {
    const float a = static_cast<float>(g.weight() / total);
    const bool first = sum.empty();
    sum.resize(g.values.size());
    for (size_t j = 0; j < sum.size(); ++j) {
      sum[j] = first ? a * g.values[j] : std::fma(a, g.values[j], sum[j]);
    }
  }
  return sum;
}

// Moves a running statistic towards the weighted mean of the gradients' own.
void AverageIn(const std::vector<Gradient>& gradients, const TensorSpec& tensor,
               std::vector<float>* weights) {
  double samples = 0, total = 0;
  for (const Gradient& g : gradients) samples += g.weight();
  std::vector<float> shares;
  for (const Gradient& g : gradients) {
    shares.push_back(static_cast<float>(g.weight() / samples));
    total += shares.back();
  }
  for (float& share : shares) share = static_cast<float>(share / total);
  const float momentum = static_cast<float>(*tensor.moving_average);
  for (int64_t j = tensor.offset; j < tensor.offset + tensor.size; ++j) {
    float mean = shares[0] * gradients[0].values[j];
    for (size_t k = 1; k < gradients.size(); ++k) {
      mean = std::fma(shares[k], gradients[k].values[j], mean);
    }
    float& s = (*weights)[j];
    s = std::fma(momentum, mean - s, s);
  }
}

// The weights with what the optimizer remembers: SGD's velocity, Adagrad's
// sums of squares, or Adam's two running means.
struct Parameters {
  std::vector<float> weights;
  std::vector<float> first;
  std::vector<float> second;
};

// One update's sum, its rate, and which update it is, from 1.
struct Step {
  std::vector<float> sum;
  double rate = 0;
  int64_t number = 0;
};

void SgdStep(const proto::Sgd& sgd, const TensorSpec& tensor, const Step& by,
             Parameters* parameters) {
  const float rate = static_cast<float>(by.rate * tensor.factors.rate);
  const float decay =
      static_cast<float>(sgd.weight_decay() * tensor.factors.decay);
  const float momentum = static_cast<float>(sgd.momentum());
  for (int64_t j = tensor.offset; j < tensor.offset + tensor.size; ++j) {
    float& w = parameters->weights[j];
    float& u = parameters->first[j];
    float step = by.sum[j];
    if (decay != 0) step = std::fma(decay, w, step);
    if (momentum != 0) {
      u = std::fma(momentum, u, step);
      step = sgd.nesterov() ? std::fma(momentum, u, step) : u;
    }
    w = std::fma(-rate, step, w);
  }
}

void AdagradStep(const proto::Adagrad& adagrad, const TensorSpec& tensor,
                 const Step& by, Parameters* parameters) {
  const float rate = static_cast<float>(by.rate * tensor.factors.rate);
  const float decay =
      static_cast<float>(adagrad.weight_decay() * tensor.factors.decay);
  for (int64_t j = tensor.offset; j < tensor.offset + tensor.size; ++j) {
    float& w = parameters->weights[j];
    float& s = parameters->first[j];
    float g = by.sum[j];
    if (decay != 0) g = std::fma(decay, w, g);
    s = std::fma(g, g, s);
    w = std::fma(-rate, g / std::sqrt(s), w);
  }
}

// By repeated squaring.
double Power(double base, int64_t exponent) {
  if (exponent == 0) return 1;
  const double rest = Power(base * base, exponent / 2);
  return exponent % 2 == 1 ? rest * base : rest;
}

template <typename AdamOrAdamW>
void AdamStep(const AdamOrAdamW& adam, bool decoupled, const TensorSpec& tensor,
              const Step& by, Parameters* parameters) {
  const double decay = adam.weight_decay() * tensor.factors.decay;
  const double full = by.rate * tensor.factors.rate;
  const float in_gradient = decoupled ? 0 : static_cast<float>(decay);
  const float shrink = decoupled ? static_cast<float>(full * decay) : 0;
  const float b1 = static_cast<float>(adam.beta1());
  const float b2 = static_cast<float>(adam.beta2());
  const float c1 = static_cast<float>(1 - adam.beta1());
  const float c2 = static_cast<float>(1 - adam.beta2());
  const float epsilon = static_cast<float>(adam.epsilon());
  const float rate =
      static_cast<float>(full / (1 - Power(adam.beta1(), by.number)));
  const float root =
      static_cast<float>(1 / std::sqrt(1 - Power(adam.beta2(), by.number)));
  for (int64_t j = tensor.offset; j < tensor.offset + tensor.size; ++j) {
    float& w = parameters->weights[j];
    float& m = parameters->first[j];
    float& v = parameters->second[j];
    float g = by.sum[j];
    if (in_gradient != 0) g = std::fma(in_gradient, w, g);
    m = std::fma(b1, m, c1 * g);
    v = std::fma(b2, v, c2 * g * g);
    if (shrink != 0) w = std::fma(-shrink, w, w);
    w = std::fma(-rate, m / std::fma(std::sqrt(v), root, epsilon), w);
  }
}

void OptimizerStep(const proto::Optimizer& optimizer, const TensorSpec& tensor,
                   const Step& by, Parameters* parameters) {
  switch (optimizer.kind_case()) {
    case proto::Optimizer::kSgd:
    case proto::Optimizer::KIND_NOT_SET:
      return SgdStep(optimizer.sgd(), tensor, by, parameters);
    case proto::Optimizer::kAdagrad:
      return AdagradStep(optimizer.adagrad(), tensor, by, parameters);
    case proto::Optimizer::kAdam:
      return AdamStep(optimizer.adam(), false, tensor, by, parameters);
    case proto::Optimizer::kAdamw:
      return AdamStep(optimizer.adamw(), true, tensor, by, parameters);
    case proto::Optimizer::kAveraging:
      return SgdStep({}, tensor, by, parameters);
  }
}

// What a task computes, at the weights it starts from.
class Tasks {
 public:
  Tasks(const ResolvedJob& job, const DataSource& data, Model* model)
      : statistics_(job.layout.statistics()),
        format_(job.layout.statistics()),
        types_(JobWireTypes(job.job)),
        task_gradient_(JobNativeGradient(job), &data, model) {}

  // Of `batches` mini-batches from `first` on, with a step of plain SGD
  // between one and the next; from pulled weights to what a shard stages.
  absl::StatusOr<Gradient> Compute(int64_t first, int batches, double rate,
                                   std::vector<float> weights) {
    const ParameterRange all = {0, static_cast<int64_t>(weights.size())};
    format_.Travel(types_.pull, all, absl::MakeSpan(weights));
    Gradient sum;
    sum.batches = batches;
    for (int h = 0; h < batches; ++h) {
      std::vector<float> gradient(weights.size());
      WeightsInPlace from(weights);
      GradientInPlace into(absl::MakeSpan(gradient));
      TaskProgress unheard;
      SLUICE_ASSIGN_OR_RETURN(
          const auto computed,
          task_gradient_.Compute({.first = BatchId(first + h)}, from, into,
                                 CancelToken(), &unheard));
      const std::vector<float> start = weights;
      for (size_t j = 0; j < weights.size(); ++j) {
        weights[j] =
            std::fma(-static_cast<float>(rate), gradient[j], weights[j]);
        if (h > 0) gradient[j] += sum.values[j];
      }
      for (const ParameterRange& range : statistics_) {
        for (int64_t j = range.begin; j < range.end; ++j) {
          weights[j] = start[j];
          if (h == batches - 1) gradient[j] *= 1 / static_cast<float>(batches);
        }
      }
      sum.values = std::move(gradient);
      sum.samples += std::get<Model::Result>(computed).samples;
    }
    format_.Travel(types_.push, all, absl::MakeSpan(sum.values));
    return sum;
  }

 private:
  const std::vector<ParameterRange> statistics_;
  const WireFormat format_;
  const WireTypes types_;
  NativeGradient task_gradient_;
};

}  // namespace

absl::StatusOr<ReferenceResult> TrainReference(const ResolvedJob& job,
                                               const DataSource& data,
                                               Model* model) {
  SLUICE_RETURN_IF_ERROR(CheckSupported(job.job));
  const ParameterLayout& layout = job.layout;
  const proto::Optimizer& optimizer = job.job.optimizer();
  const LearningRateOptions rate =
      JobLearningRate(job.job, job.data.train_samples);
  const int64_t per_update = job.job.sync().gradients_per_update();
  const int64_t per_task = job.job.sync().local_steps();
  const int64_t batches = TotalBatches(job);
  Tasks tasks(job, data, model);
  Parameters parameters;
  SLUICE_ASSIGN_OR_RETURN(const InitialWeights initial,
                          InitialWeights::Open(job));
  SLUICE_ASSIGN_OR_RETURN(parameters.weights, initial.Read({0, layout.size()}));
  parameters.first.resize(
      layout.size(),
      static_cast<float>(optimizer.adagrad().initial_accumulator()));
  parameters.second.resize(layout.size());
  Version version(0);
  int64_t applied = 0;
  int64_t next = 0;
  while (next < batches && version.value() < TotalUpdates(job.job.stop())) {
    const double local_rate = LearningRate(rate, applied, 1);
    std::vector<Gradient> gradients;
    while (static_cast<int64_t>(gradients.size()) < per_update &&
           next < batches) {
      const int64_t count = std::min(per_task, batches - next);
      SLUICE_ASSIGN_OR_RETURN(Gradient gradient,
                              tasks.Compute(next, static_cast<int>(count),
                                            local_rate, parameters.weights));
      gradients.push_back(std::move(gradient));
      next += count;
    }
    const Step step = {
        WeightedSum(gradients),
        LearningRate(rate, applied, static_cast<int>(gradients.size())),
        version.value() + 1};
    for (const TensorSpec& tensor : layout.tensors()) {
      if (tensor.is_statistic()) {
        AverageIn(gradients, tensor, &parameters.weights);
      } else {
        OptimizerStep(optimizer, tensor, step, &parameters);
      }
    }
    for (const Gradient& gradient : gradients) applied += gradient.samples;
    ++version;
  }
  ReferenceResult result;
  result.version = version;
  result.weights_sha256 = WeightsSha256(parameters.weights);
  result.weights = std::move(parameters.weights);
  return result;
}

}  // namespace sluice

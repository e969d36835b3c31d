#ifndef SLUICE_WORKER_MODEL_TESTING_MODEL_TESTING_H_
#define SLUICE_WORKER_MODEL_TESTING_MODEL_TESTING_H_

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/job/resolved_job.h"
#include "common/random.h"
#include "common/status_macros.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "kernels/cpu/cpu_device.h"
#include "worker/model/model.h"
#include "worker/testing/watched_flow.h"

// What the tests of models share.
namespace sluice {

inline constexpr char kLeNet[] = R"(
  layer { conv2d { channels: 6 kernel: 5 padding: 2 } }
  layer { relu {} }
  layer { max_pool { kernel: 2 } }
  layer { conv2d { channels: 16 kernel: 5 } }
  layer { relu {} }
  layer { max_pool { kernel: 2 } }
  layer { flatten {} }
  layer { dense { units: 120 } }
  layer { relu {} }
  layer { dense { units: 84 } }
  layer { relu {} }
  layer { dense { units: 10 } }
)";

// Relu behind all that may take it: batch norms and residuals, with parameters,
// with a projection and without either, and a convolution.
inline constexpr char kSmallResNet[] = R"(
  layer { residual { layer { tanh {} } } }
  layer { relu {} }
  layer { conv2d { channels: 3 kernel: 3 padding: 1 bias: false } }
  layer { batch_norm {} }
  layer { relu {} }
  layer { residual {
    layer { conv2d { channels: 3 kernel: 3 padding: 1 bias: false } }
    layer { batch_norm {} }
    layer { relu {} }
    layer { conv2d { channels: 3 kernel: 3 padding: 1 bias: false } }
    layer { batch_norm {} }
  } }
  layer { relu {} }
  layer { residual {
    layer { conv2d { channels: 5 kernel: 3 stride: 2 padding: 1 } }
    layer { relu {} }
    layer { conv2d { channels: 5 kernel: 1 bias: false } }
    layer { batch_norm {} }
  } }
  layer { relu {} }
  layer { conv2d { channels: 4 kernel: 1 } }
  layer { residual { layer { tanh {} } } }
  layer { relu {} }
  layer { global_average_pool {} }
  layer { dense { units: 4 } }
)";

// The same with numbers in the same places, but no relu right behind a layer
// that may take it.
inline std::string WithReluApart(std::string model) {
  const std::string relu = "layer { relu {} }";
  const std::string copy = "layer { dropout { rate: 0 } } ";
  for (size_t at = 0; (at = model.find(relu, at)) != std::string::npos;
       at += copy.size() + relu.size()) {
    model.insert(at, copy);
  }
  return model;
}

// A job of this model alone; it has targets where its loss wants them.
inline ResolvedJob MakeJob(const std::string& model,
                           const std::vector<int64_t>& input_shape) {
  proto::Job job;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      model, job.mutable_model()));
  DataShape data;
  data.input_shape = input_shape;
  data.classification = job.model().loss() != proto::Model::MEAN_SQUARED_ERROR;
  auto plan = PlanModel(job.model(), input_shape);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return ResolvedJob{job, data, *plan, ParameterLayout(plan->tensors, 1), ""};
}

inline std::vector<float> InitialWeights(const ResolvedJob& job) {
  return job.layout.InitialWeights(1, {0, job.layout.size()});
}

// Inputs in [-1, 1), or tokens, and labels or targets, from `seed`.
inline Batch MakeBatch(const ResolvedJob& job, int64_t samples, uint64_t seed) {
  int64_t input = 1;
  for (int64_t dimension : job.model.input_shape) input *= dimension;
  const std::vector<int64_t>& output = job.model.layers.back().output_shape;
  const int64_t outputs = output.back();
  const int64_t labels = samples * (output.size() == 1 ? 1 : output[0]);
  const Random random(seed, uint64_t{0}), other(seed, uint64_t{1});
  Batch batch;
  batch.samples = samples;
  for (int64_t i = 0; i < samples * input; ++i) {
    const int64_t vocabulary = job.model.vocabulary;
    batch.inputs.push_back(
        vocabulary == 0 ? 2 * random.UniformFloat(i) - 1
                        : static_cast<float>(random.Uint64(i) % vocabulary));
  }
  for (int64_t n = 0; job.data.classification && n < labels; ++n) {
    batch.labels.push_back(static_cast<int32_t>(other.Uint64(n) % outputs));
  }
  for (int64_t i = 0; !job.data.classification && i < samples * outputs; ++i) {
    batch.targets.push_back(2 * other.UniformFloat(i) - 1);
  }
  return batch;
}

inline std::unique_ptr<kernels::Device> Cpu(int threads = 1) {
  auto device = kernels::MakeCpuDevice({threads, {}});
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

inline std::unique_ptr<Model> Create(const ResolvedJob& job, int max_samples,
                                     kernels::Device* device,
                                     const ModelOptions& options = {}) {
  auto model = Model::Create(job, max_samples, device, options);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// Model::ComputeGradient at weights that do not begin anew, and of a mini-batch
// in one part, watched.
inline absl::StatusOr<Model::Result> Watched(
    Model* model, const Model::Steps& steps, absl::Span<const float> weights,
    absl::Span<float> gradient, const CancelToken& cancel = CancelToken(),
    const Watch& watch = {}, TaskProgress* progress = nullptr) {
  WatchedWeights from(weights, watch);
  WatchedGradient into(gradient, watch);
  TaskProgress unheard;
  SLUICE_ASSIGN_OR_RETURN(
      const auto computed,
      model->ComputeGradient(steps, from, into, cancel,
                             progress == nullptr ? &unheard : progress));
  return std::get<Model::Result>(computed);
}
inline absl::StatusOr<Model::Result> Watched(Model* model, const Batch& batch,
                                             absl::Span<const float> weights,
                                             absl::Span<float> gradient,
                                             const CancelToken& cancel,
                                             const Watch& watch,
                                             TaskProgress* progress = nullptr) {
  Model::Steps one;
  one.next = [&] { return Model::Part{&batch}; };
  return Watched(model, one, weights, gradient, cancel, watch, progress);
}

// The gradient, with NaN wherever the model forgot to write.
inline std::vector<float> Gradient(Model* model, const Batch& batch,
                                   const std::vector<float>& weights) {
  std::vector<float> gradient(weights.size(), std::nanf(""));
  const auto result = model->ComputeGradient(
      batch, weights, absl::MakeSpan(gradient), CancelToken());
  EXPECT_TRUE(result.ok()) << result.status();
  return gradient;
}

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() &&
         std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline constexpr double kUnit = 1.0 / (1 << 24);  // Rounding of one operation.

// The parts of each mini-batch.
using Work = std::vector<std::vector<Batch>>;

// Mini-batches of so many samples in each part.
inline Work MakeWork(const ResolvedJob& job,
                     const std::vector<std::vector<int64_t>>& samples) {
  Work work;
  for (size_t i = 0; i < samples.size(); ++i) {
    int64_t first = 0;
    for (const int64_t count : samples[i]) {
      Batch part = MakeBatch(job, count, 10 * i + first);
      part.id = BatchId(i);
      part.first = first;
      first += count;
      if (i == work.size()) work.emplace_back();
      work[i].push_back(std::move(part));
    }
  }
  return work;
}

inline float ShareOf(const std::vector<Batch>& parts, size_t part) {
  int64_t total = 0;
  for (const Batch& batch : parts) total += batch.samples;
  return static_cast<float>(static_cast<double>(parts[part].samples) /
                            static_cast<double>(total));
}

// `work` must outlive them.
inline Model::Steps StepsOf(const Work& work, float rate,
                            double clip_norm = 0) {
  return {.count = static_cast<int>(work.size()),
          .rate = rate,
          .clip_norm = clip_norm,
          .next = [&work, step = size_t{0}, part = size_t{0}]() mutable {
            const std::vector<Batch>& parts = work[step];
            const Model::Part next = {.batch = &parts[part],
                                      .share = ShareOf(parts, part),
                                      .last = part + 1 == parts.size()};
            part = next.last ? 0 : part + 1;
            if (next.last) step = (step + 1) % work.size();
            return next;
          }};
}

}  // namespace sluice

#endif  // SLUICE_WORKER_MODEL_TESTING_MODEL_TESTING_H_

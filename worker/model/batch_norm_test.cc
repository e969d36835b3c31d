// Batch norm in a model: what it computes, and what becomes of its statistics.
#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_device.h"
#include "worker/model/testing/gradient_checks.h"
#include "worker/model/testing/model_testing.h"
#include "worker/model/testing/separate_memory_device.h"

namespace sluice {
namespace {

constexpr char kNet[] = R"(
  layer { conv2d { channels: 3 kernel: 3 padding: 1 bias: false } }
  layer { batch_norm {} }
  layer { tanh {} }
  layer { residual {
    layer { conv2d { channels: 4 kernel: 3 stride: 2 padding: 1 } }
    layer { batch_norm {} }
    layer { tanh {} }
  } }
  layer { global_average_pool {} }
  layer { batch_norm {} }
  layer { dense { units: 4 } }
)";

TEST(BatchNormLayerTest, GradientsAgreeWithFiniteDifferences) {
  const ResolvedJob job = MakeJob(kNet, {2, 6, 6});
  CheckTrainingGradient(job, MakeBatch(job, 7, 5), /*third=*/100);
  const ResolvedJob first =
      MakeJob("layer { batch_norm {} } layer { dense { units: 3 } }", {4});
  CheckTrainingGradient(first, MakeBatch(first, 9, 5), /*third=*/100);
}

// Sets what `tensor` holds in `vector` to `values`.
void Set(const ResolvedJob& job, const std::string& tensor,
         const std::vector<float>& values, std::vector<float>* vector) {
  for (const TensorSpec& spec : job.layout.tensors()) {
    if (spec.name != tensor) continue;
    ASSERT_EQ(spec.size, static_cast<int64_t>(values.size()));
    std::copy(values.begin(), values.end(), vector->begin() + spec.offset);
    return;
  }
  FAIL() << tensor;
}

std::vector<float> Get(const ResolvedJob& job, const std::string& tensor,
                       const std::vector<float>& vector) {
  for (const TensorSpec& spec : job.layout.tensors()) {
    if (spec.name != tensor) continue;
    const auto begin = vector.begin() + spec.offset;
    return std::vector<float>(begin, begin + spec.size);
  }
  ADD_FAILURE() << tensor;
  return {};
}

TEST(BatchNormLayerTest, TheGradientCarriesTheMiniBatchsMeanAndVariance) {
  const ResolvedJob job =
      MakeJob("layer { batch_norm {} } layer { dense { units: 3 } }", {2});
  Batch batch = MakeBatch(job, 4, 5);
  batch.inputs = {1, 10, 2, 10, 3, 20, 6, 20};
  const auto device = Cpu();
  const auto gradient =
      Gradient(Create(job, 4, device.get()).get(), batch, InitialWeights(job));
  EXPECT_THAT(Get(job, "batch_norm0.running_mean", gradient),
              testing::ElementsAre(3, 15));
  EXPECT_THAT(Get(job, "batch_norm0.running_variance", gradient),
              testing::ElementsAre(3.5, 25));
}

TEST(BatchNormLayerTest, TrainingLooksAtNoRunningStatistic) {
  const ResolvedJob job = MakeJob(kNet, {2, 6, 6});
  const auto device = Cpu();
  const auto model = Create(job, 5, device.get());
  const Batch batch = MakeBatch(job, 5, 5);
  std::vector<float> weights = InitialWeights(job);
  const auto want = Gradient(model.get(), batch, weights);
  for (const ParameterRange& range : job.layout.statistics()) {
    for (int64_t i = range.begin; i < range.end; ++i) weights[i] = 7;
  }
  EXPECT_TRUE(SameBits(Gradient(model.get(), batch, weights), want));
}

TEST(BatchNormLayerTest, AnEvaluationTakesTheRunningStatistics) {
  const ResolvedJob job = MakeJob(kNet, {2, 6, 6});
  const auto device = Cpu();
  const auto model = Create(job, 5, device.get());
  const Batch batch = MakeBatch(job, 5, 5);
  std::vector<float> weights = InitialWeights(job);
  std::vector<float> gradient(weights.size());
  const auto training = model->ComputeGradient(
      batch, weights, absl::MakeSpan(gradient), CancelToken());
  ASSERT_TRUE(training.ok());
  EXPECT_NE(model->Evaluate(batch, weights)->loss, training->loss);
  // With the mini-batch's own as the running ones both are the same.
  for (const ParameterRange& range : job.layout.statistics()) {
    std::copy(gradient.begin() + range.begin, gradient.begin() + range.end,
              weights.begin() + range.begin);
  }
  EXPECT_EQ(model->Evaluate(batch, weights)->loss, training->loss);
  // Of one sample alone, too, whose own variance would be 0.
  const ResolvedJob flat =
      MakeJob("layer { batch_norm {} } layer { dense { units: 3 } }", {2});
  std::vector<float> w = InitialWeights(flat);
  Set(flat, "batch_norm0.running_mean", {5, 5}, &w);
  Set(flat, "dense1.weight", {1, 0, 0, 1, 0, 0}, &w);
  Batch one = MakeBatch(flat, 1, 5);
  one.inputs = {5, 5};
  one.labels = {0};
  EXPECT_NEAR(Create(flat, 1, device.get())->Evaluate(one, w)->loss,
              std::log(3), 1e-6);
}

TEST(BatchNormLayerTest, TheCpuComputesAsTheReferenceDoes) {
  // Every layer twice, with at most 5 x 36 + 36 terms each, 9 layers, and
  // divided by deviations of at least 1/8.
  CheckCpuGradient(MakeJob(kNet, {2, 6, 6}), 8 * 2 * 9 * (5 * 36 + 36));
}

TEST(BatchNormLayerTest, StatisticsComeFromADeviceWithMemoryOfItsOwn) {
  const ResolvedJob job = MakeJob(kNet, {2, 6, 6});
  const auto reference = kernels::MakeReferenceDevice();
  SeparateMemoryDevice separate;
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 5, 5);
  EXPECT_TRUE(SameBits(
      Gradient(Create(job, 5, &separate).get(), batch, weights),
      Gradient(Create(job, 5, reference.get()).get(), batch, weights)));
}

TEST(BatchNormLayerTest, StatisticsAreFinalWhenTheyAreAnnounced) {
  // Three batch norms, two convolutions, the projection and the dense layer.
  CheckAnnouncements(MakeJob(kNet, {2, 6, 6}), Cpu().get(), 7);
}

TEST(BatchNormLayerTest, AResidualWhoseLastGammaIsZeroStartsAsNothing) {
  const std::string end = "layer { name: 'end' dense { units: 3 } }";
  const auto with = MakeJob(
      "layer { residual { zero_init_last_gamma: true "
      "layer { dense { units: 5 } } layer { batch_norm {} } "
      "layer { relu {} } layer { dense { units: 5 } } "
      "layer { batch_norm {} } } }" +
          end,
      {5});
  const auto without = MakeJob("layer { relu {} }" + end, {5});
  const auto device = Cpu();
  Batch batch = MakeBatch(with, 6, 5);
  for (float& x : batch.inputs) x = std::abs(x);  // For the relu in `without`.
  const auto loss = [&](const ResolvedJob& job) {
    return LossAt(Create(job, 6, device.get()).get(), batch,
                  InitialWeights(job), 0, 0);
  };
  EXPECT_EQ(loss(with), loss(without));
}

}  // namespace
}  // namespace sluice

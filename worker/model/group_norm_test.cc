// Models with group norm.
#include <algorithm>
#include <cmath>

#include "gtest/gtest.h"
#include "kernels/reference/reference_device.h"
#include "worker/model/testing/model_testing.h"

namespace sluice {
namespace {

constexpr char kGroupNet[] = R"(
  layer { conv2d { channels: 6 kernel: 3 padding: 1 bias: false } }
  layer { group_norm { groups: 3 } }
  layer { tanh {} }
  layer { residual {
    layer { group_norm { groups: 1 } }
    layer { conv2d { channels: 4 kernel: 3 stride: 2 padding: 1 } }
    layer { group_norm { groups: 4 } }
  } }
  layer { global_average_pool {} }
  layer { dense { units: 3 } }
)";

TEST(GroupNormLayerTest, GradientsAgreeWithFiniteDifferences) {
  const ResolvedJob job = MakeJob(kGroupNet, {2, 6, 6});
  CheckTrainingGradient(job, MakeBatch(job, 3, 5));
}

TEST(GroupNormLayerTest, TheCpuComputesAsTheReferenceDoes) {
  const ResolvedJob job = MakeJob(kGroupNet, {2, 6, 6});
  const auto cpu = Cpu(), reference = kernels::MakeReferenceDevice();
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 5, 5);
  const auto got = Gradient(Create(job, 7, cpu.get()).get(), batch, weights);
  const auto want =
      Gradient(Create(job, 7, reference.get()).get(), batch, weights);
  float largest = 0;
  for (float g : want) largest = std::max(largest, std::abs(g));
  // Nine layers twice, with at most 5 x 36 + 54 terms each.
  const double tolerance = 2 * 9 * (5 * 36 + 54) * kUnit * largest;
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_NEAR(got[i], want[i], tolerance) << job.layout.TensorAt(i).name;
  }
}

TEST(GroupNormLayerTest, NoSampleLooksAtAnother) {
  const ResolvedJob job = MakeJob(kGroupNet, {2, 6, 6});
  const auto cpu = Cpu();
  const auto model = Create(job, 4, cpu.get());
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 4, 5);
  double sum = 0;
  for (int n = 0; n < 4; ++n) {
    Batch one = batch;
    one.samples = 1;
    one.inputs.assign(&batch.inputs[n * 72], &batch.inputs[n * 72] + 72);
    one.labels = {batch.labels[n]};
    const auto result = model->Evaluate(one, weights);
    ASSERT_TRUE(result.ok()) << result.status();
    sum += result->loss;
  }
  // Four losses of some 1, each of which rounds.
  EXPECT_NEAR(model->Evaluate(batch, weights)->loss, sum / 4, 8 * kUnit);
}

TEST(GroupNormLayerTest, TrainingTellsUprightFromLyingStripes) {
  const ResolvedJob job = MakeJob(
      "layer { conv2d { channels: 8 kernel: 3 } }"
      "layer { group_norm { groups: 4 } } layer { relu {} }"
      "layer { global_average_pool {} } layer { dense { units: 2 } }",
      {1, 8, 8});
  const auto cpu = Cpu();
  const auto model = Create(job, 32, cpu.get());
  Batch batch = MakeBatch(job, 32, 5);
  for (int i = 0; i < 32 * 64; ++i) {
    const int n = i / 64, row = i % 64 / 8, column = i % 8;
    batch.labels[n] = n % 2;
    batch.inputs[i] += (n % 2 == 0 ? row : column) % 2 == 0 ? 0.5f : -0.5f;
  }
  auto weights = InitialWeights(job);
  const double before = model->Evaluate(batch, weights)->loss;
  for (int step = 0; step < 60; ++step) {
    const auto gradient = Gradient(model.get(), batch, weights);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] -= gradient[i] / 2;
  }
  const auto after = model->Evaluate(batch, weights);
  EXPECT_LT(after->loss, before / 3);
  EXPECT_GE(after->correct, 30);
}

}  // namespace
}  // namespace sluice

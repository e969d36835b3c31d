// Models with group norm.

#include "gtest/gtest.h"
#include "worker/model/testing/gradient_checks.h"
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
  // Nine layers twice, with at most 5 x 36 + 54 terms each.
  CheckCpuGradient(MakeJob(kGroupNet, {2, 6, 6}), 2 * 9 * (5 * 36 + 54));
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

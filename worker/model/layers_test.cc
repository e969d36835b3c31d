// Layers that look at more than their input: dropout, residual, repeat.
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/model/testing/gradient_checks.h"
#include "worker/model/testing/model_testing.h"
#include "worker/model/testing/separate_memory_device.h"

namespace sluice {
namespace {

constexpr char kResidualNet[] = R"(
  layer { conv2d { channels: 3 kernel: 3 padding: 1 } }
  layer { tanh {} }
  layer { residual {
    layer { conv2d { channels: 3 kernel: 3 padding: 1 } }
    layer { tanh {} }
  } }
  layer { tanh {} }
  layer { repeat { times: 2 layer { residual {
    layer { tanh {} }
    layer { conv2d { channels: 4 kernel: 3 stride: 2 padding: 1 } }
    layer { residual { layer { tanh {} } } }
  } } } }
  layer { global_average_pool {} }
  layer { residual { layer { dense { units: 5 } } layer { tanh {} } } }
  layer { dense { units: 4 } }
)";

TEST(LayersTest, GradientsOfResidualsAgreeWithFiniteDifferences) {
  const ResolvedJob job = MakeJob(kResidualNet, {2, 6, 6});
  CheckTrainingGradient(job, MakeBatch(job, 3, 5));
}

TEST(LayersTest, AResidualMayBeTheFirstLayer) {
  const ResolvedJob job = MakeJob(
      "layer { residual { layer { tanh {} } layer { dense { units: 3 } } } }"
      "layer { residual { layer { tanh {} } } }"
      "layer { dense { units: 2 } }",
      {4});
  CheckTrainingGradient(job, MakeBatch(job, 3, 5));
}

TEST(LayersTest, TheCpuComputesResidualsAsTheReferenceDoes) {
  // Every layer twice, with at most 5 x 36 + 36 terms each, 12 layers.
  CheckCpuGradient(MakeJob(kResidualNet, {2, 6, 6}), 2 * 12 * (5 * 36 + 36));
}

TEST(LayersTest, AResidualsGradientBecomesReadyFromTheEndToTheBeginning) {
  // One step for each layer with parameters.
  CheckAnnouncements(MakeJob(kResidualNet, {2, 6, 6}), Cpu().get(), 9);
}

TEST(LayersTest, ARepeatIsTheSameAsItsLayersWrittenOut) {
  const std::string layers = "layer { dense { units: 4 } } layer { tanh {} } ";
  const std::string end = "layer { name: 'end' dense { units: 2 } }";
  const auto repeated =
      MakeJob("layer { repeat { times: 2 " + layers + "} }" + end, {4});
  const auto written = MakeJob(layers + layers + end, {4});
  const auto device = Cpu();
  const auto weights = InitialWeights(written);
  const Batch batch = MakeBatch(written, 3, 5);
  EXPECT_TRUE(SameBits(
      Gradient(Create(repeated, 3, device.get()).get(), batch, weights),
      Gradient(Create(written, 3, device.get()).get(), batch, weights)));
}

// The reference, with a note of who was asked for relu as well.
class NotingDevice : public SeparateMemoryDevice {
 public:
  absl::StatusOr<kernels::AnyOp> PrepareAny(const kernels::OpSpec& spec,
                                            int64_t max_samples) override {
    std::visit(
        [this](const auto& shape) {
          if constexpr (requires { shape.relu; }) relu.push_back(shape.relu);
        },
        spec);
    return SeparateMemoryDevice::PrepareAny(spec, max_samples);
  }
  std::vector<bool> relu;
};

TEST(LayersTest, ReluIsPartOfTheDenseOrConvolutionRightBeforeIt) {
  NotingDevice device;
  Create(MakeJob(kLeNet, {1, 28, 28}), 1, &device);
  EXPECT_THAT(device.relu, testing::ElementsAre(true, true, true, true, false));
  device.relu.clear();
  Create(MakeJob(WithReluApart(kLeNet), {1, 28, 28}), 1, &device);
  EXPECT_THAT(device.relu, testing::Each(false));
  device.relu.clear();
  // Also behind a flatten, but not with something else between.
  Create(MakeJob("layer { conv2d { channels: 2 kernel: 1 } }"
                 "layer { flatten {} } layer { relu {} }"
                 "layer { dense { units: 2 } } layer { tanh {} }"
                 "layer { relu {} } layer { dense { units: 2 } }",
                 {1, 3, 3}),
         1, &device);
  EXPECT_THAT(device.relu, testing::ElementsAre(true, false, false));
}

TEST(LayersTest, ReluIsPartOfTheBatchNormOrTheResidualRightBeforeIt) {
  NotingDevice device;
  const auto prepared = [&](const std::string& layers) {
    device.relu.clear();
    Create(MakeJob(layers, {3, 4, 4}), 1, &device);
    return device.relu;
  };
  EXPECT_THAT(prepared("layer { batch_norm {} } layer { relu {} }"
                       "layer { batch_norm {} } layer { tanh {} }"
                       "layer { relu {} } layer { flatten {} }"),
              testing::ElementsAre(true, false));
  // Of the body and of the projection, then the sum of the outputs and that of
  // the inputs' gradients.
  EXPECT_THAT(prepared("layer { residual {"
                       "  layer { batch_norm {} } layer { relu {} }"
                       "  layer { conv2d { channels: 2 kernel: 1 } }"
                       "} } layer { relu {} } layer { flatten {} }"),
              testing::ElementsAre(true, false, false, true, false));
  // The end of a body is not the end of its residual.
  EXPECT_THAT(prepared("layer { residual { layer { batch_norm {} } } }"
                       "layer { relu {} } layer { flatten {} }"),
              testing::ElementsAre(false, true, false));
  EXPECT_THAT(prepared("layer { residual { layer { batch_norm {} }"
                       "layer { relu {} } } } layer { flatten {} }"),
              testing::ElementsAre(true, false, false));
  prepared(WithReluApart(kSmallResNet));
  EXPECT_THAT(device.relu, testing::Each(false));
}

TEST(LayersTest, ReluThatIsPartOfALayerIsNotComputedAgain) {
  const ResolvedJob job = MakeJob(kLeNet, {1, 28, 28});
  SeparateMemoryDevice device;
  const auto model = Create(job, 1, &device);
  int paces = 0;
  device.on_pace = [&] { ++paces; };
  ASSERT_TRUE(model->Evaluate(MakeBatch(job, 1, 5), InitialWeights(job)).ok());
  // Before each of two convolutions, two pools and three dense, and at the end.
  EXPECT_EQ(paces, 8);
  const ResolvedJob resnet = MakeJob(kSmallResNet, {2, 6, 6});
  const auto other = Create(resnet, 1, &device);
  paces = 0;
  ASSERT_TRUE(
      other->Evaluate(MakeBatch(resnet, 1, 5), InitialWeights(resnet)).ok());
  // Nine layers, in the residuals one, four, three and one, and at each end.
  EXPECT_EQ(paces, 9 + 1 + (1 + 1) + (4 + 1) + (3 + 1) + (1 + 1));
}

TEST(LayersTest, ReluBehindALayerChangesNoBitByBeingPartOfIt) {
  for (const auto& [net, shape] :
       {std::pair{kLeNet, std::vector<int64_t>{1, 28, 28}},
        std::pair{kSmallResNet, std::vector<int64_t>{2, 6, 6}}}) {
    const ResolvedJob job = MakeJob(net, shape);
    const ResolvedJob apart = MakeJob(WithReluApart(net), shape);
    const auto device = Cpu();
    const auto weights = InitialWeights(job);
    const Batch batch = MakeBatch(job, 3, 5);
    const auto model = Create(job, 3, device.get());
    const auto other = Create(apart, 3, device.get());
    EXPECT_TRUE(SameBits(Gradient(model.get(), batch, weights),
                         Gradient(other.get(), batch, weights)));
    EXPECT_EQ(model->Evaluate(batch, weights)->loss,
              other->Evaluate(batch, weights)->loss);
  }
}

constexpr char kDropoutNet[] = R"(
  layer { dense { units: 40 } }
  layer { tanh {} }
  layer { dropout { rate: 0.4 } }
  layer { dense { units: 30 } }
  layer { dropout { rate: 0.4 } }
  layer { dense { units: 3 } }
)";

TEST(LayersTest, GradientsWithDropoutAgreeWithFiniteDifferences) {
  const ResolvedJob job = MakeJob(kDropoutNet, {5});
  CheckTrainingGradient(job, MakeBatch(job, 3, 5));
}

TEST(LayersTest, DropoutIsAFunctionOfSeedMiniBatchAndLayerAlone) {
  const ResolvedJob job = MakeJob(kDropoutNet, {5});
  ResolvedJob other_seed = job;
  other_seed.job.set_seed(2);
  const auto device = Cpu(), threads = Cpu(2);
  const auto weights = InitialWeights(job);
  Batch batch = MakeBatch(job, 4, 5);
  batch.id = BatchId(7);
  const auto model = Create(job, 4, device.get());
  const auto want = Gradient(model.get(), batch, weights);
  batch.id = BatchId(8);
  EXPECT_FALSE(SameBits(Gradient(model.get(), batch, weights), want));
  batch.id = BatchId(7);
  EXPECT_TRUE(SameBits(Gradient(model.get(), batch, weights), want));
  EXPECT_TRUE(SameBits(
      Gradient(Create(job, 9, device.get()).get(), batch, weights), want));
  EXPECT_FALSE(SameBits(
      Gradient(Create(other_seed, 4, device.get()).get(), batch, weights),
      want));
  // Two layers of the same size drop different numbers.
  const std::string layer = "layer { dropout { rate: 0.5 } } ";
  const std::string end = "layer { name: 'end' dense { units: 2 } }";
  const auto once = MakeJob(layer + end, {64});
  const auto twice = MakeJob(layer + layer + end, {64});
  const auto dropped = [&](const ResolvedJob& job) {
    const auto model = Create(job, 1, device.get());
    const auto gradient =
        Gradient(model.get(), MakeBatch(job, 1, 5), InitialWeights(job));
    return std::count(gradient.begin(), gradient.begin() + 64, 0.0f);
  };
  EXPECT_GT(dropped(twice), dropped(once));
}

TEST(LayersTest, WithinAResidualDropoutGoesByTheMiniBatchToo) {
  const ResolvedJob job = MakeJob(R"(
    layer { residual {
      layer { dense { units: 40 } }
      layer { dropout { rate: 0.4 } }
    } }
    layer { dense { units: 3 } }
  )",
                                  {5});
  const auto device = Cpu();
  const auto model = Create(job, 4, device.get());
  const auto weights = InitialWeights(job);
  Batch batch = MakeBatch(job, 4, 5);
  batch.id = BatchId(7);
  const auto want = Gradient(model.get(), batch, weights);
  batch.id = BatchId(8);
  EXPECT_FALSE(SameBits(Gradient(model.get(), batch, weights), want));
  batch.id = BatchId(7);
  ASSERT_TRUE(model->Evaluate(batch, weights).ok());
  EXPECT_TRUE(SameBits(Gradient(model.get(), batch, weights), want));
}

TEST(LayersTest, WhatIsDroppedGoesByThePlaceInTheMiniBatch) {
  const auto job = MakeJob(
      "layer { name: 'a' dense { units: 16 } } layer { dropout {} } "
      "layer { name: 'b' dense { units: 3 } }",
      {5});
  const auto device = Cpu();
  const auto model = Create(job, 6, device.get());
  const auto weights = InitialWeights(job);
  const Batch whole = MakeBatch(job, 6, 5);
  // The summed loss over two parts of which the second begins at `first`.
  const auto in_parts = [&](int64_t first) {
    double loss = 0;
    for (const int64_t at : {0, 4}) {
      Batch part = whole;
      part.samples = at == 0 ? 4 : 2;
      part.first = at == 0 ? 0 : first;
      part.inputs.assign(whole.inputs.begin() + at * 5,
                         whole.inputs.begin() + (at + part.samples) * 5);
      part.labels.assign(whole.labels.begin() + at,
                         whole.labels.begin() + at + part.samples);
      std::vector<float> gradient(weights.size());
      const auto result = model->ComputeGradient(
          part, weights, absl::MakeSpan(gradient), CancelToken());
      loss += result->loss * static_cast<double>(part.samples);
    }
    return loss;
  };
  std::vector<float> gradient(weights.size());
  const auto at_once = model->ComputeGradient(
      whole, weights, absl::MakeSpan(gradient), CancelToken());
  // Sums of 16 products of about 1, and an exp and log, per sample.
  EXPECT_NEAR(in_parts(4), at_once->loss * 6, 6 * 32 * kUnit);
  EXPECT_GT(std::abs(in_parts(0) - at_once->loss * 6), 6 * 1024 * kUnit);
}

TEST(LayersTest, AnEvaluationDropsNothing) {
  const std::string dense = "layer { name: 'a' dense { units: 3 } } ";
  const auto with =
      MakeJob("layer { dropout {} } layer { tanh {} } layer { dropout {} } " +
                  dense + "layer { dropout {} }",
              {5});
  const auto without = MakeJob("layer { tanh {} } " + dense, {5});
  const auto device = Cpu();
  const auto weights = InitialWeights(with);
  const Batch batch = MakeBatch(with, 6, 5);
  EXPECT_EQ(Create(with, 6, device.get())->Evaluate(batch, weights)->loss,
            Create(without, 6, device.get())->Evaluate(batch, weights)->loss);
}

}  // namespace
}  // namespace sluice

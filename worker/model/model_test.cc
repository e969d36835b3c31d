// What a model computes.
#include "worker/model/model.h"

#include <algorithm>
#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_device.h"
#include "worker/model/testing/model_testing.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

constexpr double kUnit = 1.0 / (1 << 24);  // Rounding of one operation.

// Smooth everywhere, so that finite differences can be trusted.
constexpr char kSmoothNet[] = R"(
  layer { conv2d { channels: 2 kernel: 3 padding: 1 } }
  layer { tanh {} }
  layer { average_pool { kernel: 2 } }
  layer { conv2d { channels: 3 kernel: 2 } }
  layer { tanh {} }
  layer { flatten {} }
  layer { dense { units: 5 } }
  layer { tanh {} }
  layer { dense { units: 4 bias: false } }
)";
// The difference (L(w + h) - L(w - h)) / 2h is off by h^2 / 6 times the third
// derivative, here below 4, and by the rounding of two losses over 2h. A loss
// of about 1.5 comes from 9 layers that each round a few times.
void CheckGradient(const ResolvedJob& job) {
  const auto device = kernels::MakeReferenceDevice();
  const auto model = Create(job, 3, device.get());
  const Batch batch = MakeBatch(job, 3, 5);
  std::vector<float> weights = InitialWeights(job);
  for (size_t i = 0; i < weights.size(); ++i) {
    if (weights[i] == 0) weights[i] = 0.01f * (i % 7);  // Biases.
  }
  const auto gradient = Gradient(model.get(), batch, weights);
  constexpr float kStep = 1.0 / 256;  // w +- step is nearly exact.
  const double tolerance =
      4 * kStep * kStep / 6 + 2 * 9 * 4 * kUnit * 1.5 / (2 * kStep);
  for (size_t i = 0; i < weights.size(); ++i) {
    const float kept = weights[i];
    weights[i] = kept + kStep;
    const double above = model->Evaluate(batch, weights)->loss;
    weights[i] = kept - kStep;
    const double below = model->Evaluate(batch, weights)->loss;
    weights[i] = kept;
    ASSERT_NEAR((above - below) / (2 * kStep), gradient[i], tolerance)
        << job.layout.TensorAt(i).name << " at " << i;
  }
  // The check means something only if gradients are far above the tolerance.
  EXPECT_GT(std::abs(*std::max_element(gradient.begin(), gradient.end())),
            100 * tolerance);
}

TEST(ModelTest, GradientsOfANetAgreeWithFiniteDifferences) {
  CheckGradient(MakeJob(kSmoothNet, {2, 6, 6}));
}

TEST(ModelTest, GradientsOfSquaredErrorAgreeWithFiniteDifferences) {
  CheckGradient(
      MakeJob("loss: MEAN_SQUARED_ERROR "
              "layer { dense { units: 4 } } layer { tanh {} } "
              "layer { dense { units: 2 } }",
              {5}));
}

TEST(ModelTest, GradientsOfGeluAndSigmoidAgreeWithFiniteDifferences) {
  CheckGradient(
      MakeJob("layer { conv2d { channels: 3 kernel: 2 } } layer { gelu {} } "
              "layer { gelu {} } layer { global_average_pool {} } "
              "layer { dense { units: 4 } } layer { sigmoid {} } "
              "layer { sigmoid {} } layer { dense { units: 3 } }",
              {2, 5, 4}));
}

// Activations run in place only where nobody needs what they overwrite.
TEST(ModelTest, ActivationsInARowKeepTheirOwnOutputs) {
  CheckGradient(
      MakeJob("layer { dense { units: 4 } } layer { tanh {} } "
              "layer { tanh {} } layer { tanh {} } "
              "layer { dense { units: 3 } }",
              {5}));
}

TEST(ModelTest, AnIncreasingActivationMayStandOnEitherSideOfMaxPooling) {
  const std::string conv = "layer { conv2d { channels: 3 kernel: 2 } }";
  const std::string pool = "layer { max_pool { kernel: 2 } }";
  const std::string tanh = "layer { tanh {} }";
  const std::string end =
      "layer { flatten {} } layer { name: \"end\" dense { units: 2 } }";
  const auto before = MakeJob(conv + tanh + pool + end, {1, 7, 7});
  const auto after = MakeJob(conv + pool + tanh + end, {1, 7, 7});
  const auto device = Cpu();
  const auto weights = InitialWeights(before);
  const Batch batch = MakeBatch(before, 3, 5);
  const auto a =
      Gradient(Create(before, 3, device.get()).get(), batch, weights);
  const auto b = Gradient(Create(after, 3, device.get()).get(), batch, weights);
  // The same products and sums; a sum of 3 x 3 x 3 terms may be ordered
  // differently where zeros stand between them.
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 27 * kUnit);
}

// A gradient has passed every layer twice, so it is off by at most the sums'
// lengths of all layers, twice, in units of the largest gradient; the
// intermediate results of this net are of about the same size.
TEST(ModelTest, TheCpuComputesLeNetAsTheReferenceDoes) {
  const ResolvedJob job = MakeJob(kLeNet, {1, 28, 28});
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 7, 5);
  const auto cpu = Cpu(), reference = kernels::MakeReferenceDevice();
  const auto fast = Create(job, 7, cpu.get());
  const auto plain = Create(job, 7, reference.get());
  const auto got = Gradient(fast.get(), batch, weights);
  const auto want = Gradient(plain.get(), batch, weights);
  constexpr double kTerms = 2 * (25 + 150 + 400 + 120 + 84);
  for (const TensorSpec& tensor : job.layout.tensors()) {
    float largest = 0;
    for (int64_t i = 0; i < tensor.size; ++i) {
      largest = std::max(largest, std::abs(want[tensor.offset + i]));
    }
    EXPECT_GT(largest, 0);
    for (int64_t i = 0; i < tensor.size; ++i) {
      ASSERT_NEAR(got[tensor.offset + i], want[tensor.offset + i],
                  kTerms * kUnit * largest)
          << tensor.name << "[" << i << "]";
    }
  }
  const auto a = fast->Evaluate(batch, weights);
  const auto b = plain->Evaluate(batch, weights);
  EXPECT_NEAR(a->loss, b->loss, kTerms * kUnit * b->loss);
  EXPECT_EQ(a->correct, b->correct);
}

TEST(ModelTest, AGradientIsAFunctionOfBatchAndWeightsAlone) {
  const ResolvedJob job = MakeJob(kLeNet, {1, 28, 28});
  const auto weights = InitialWeights(job);
  const Batch full = MakeBatch(job, 16, 5), last = MakeBatch(job, 5, 6);
  for (int threads : {1, 2}) {
    const auto device = Cpu(threads), other = Cpu(threads);
    const auto model = Create(job, 16, device.get());
    const auto of_full = Gradient(model.get(), full, weights);
    const auto of_last = Gradient(model.get(), last, weights);
    // Again, after other work; and in a model prepared for just that size.
    EXPECT_TRUE(SameBits(Gradient(model.get(), full, weights), of_full));
    ASSERT_TRUE(model->Evaluate(MakeBatch(job, 9, 7), weights).ok());
    EXPECT_TRUE(SameBits(Gradient(model.get(), last, weights), of_last));
    const auto exact = Create(job, 5, other.get());
    EXPECT_TRUE(SameBits(Gradient(exact.get(), last, weights), of_last));
  }
}

TEST(ModelTest, BitsDoNotDependOnWhereTheFlatVectorsLie) {
  const ResolvedJob job = MakeJob(kLeNet, {1, 28, 28});
  const auto device = Cpu();
  const auto model = Create(job, 4, device.get());
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 4, 5);
  const auto want = Gradient(model.get(), batch, weights);
  for (size_t offset : {1, 3, 7}) {
    std::vector<float> moved(weights.size() + offset);
    std::copy(weights.begin(), weights.end(), moved.begin() + offset);
    std::vector<float> gradient(moved.size());
    ASSERT_TRUE(model
                    ->ComputeGradient(
                        batch, absl::MakeConstSpan(moved).subspan(offset),
                        absl::MakeSpan(gradient).subspan(offset), CancelToken())
                    .ok());
    gradient.erase(gradient.begin(), gradient.begin() + offset);
    EXPECT_TRUE(SameBits(gradient, want));
  }
}

TEST(ModelTest, LayersBeforeTheFirstWithParametersArePassed) {
  const ResolvedJob job = MakeJob(
      "layer { relu {} } layer { tanh {} } layer { dense { units: 2 } }"
      "layer { relu {} }",
      {3});
  const auto cpu = Cpu(), reference = kernels::MakeReferenceDevice();
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 4, 5);
  const auto got = Gradient(Create(job, 4, cpu.get()).get(), batch, weights);
  const auto want =
      Gradient(Create(job, 4, reference.get()).get(), batch, weights);
  for (size_t i = 0; i < got.size(); ++i) {
    // Sums of 4 samples of numbers below 1, behind tanh and softmax.
    EXPECT_NEAR(got[i], want[i], (4 + 3 + 16) * kUnit);
  }
}

TEST(ModelTest, TheFirstLayersInputGradientIsNotNeededForItsOwn) {
  const ResolvedJob job = MakeJob("layer { dense { units: 2 } }", {3});
  const auto device = kernels::MakeReferenceDevice();
  const auto model = Create(job, 2, device.get());
  // d loss / d w = (p - [label]) x / samples with p = 1/2 at w = 0.
  Batch batch;
  batch.samples = 2;
  batch.inputs = {1, 2, 3, 4, 5, 6};
  batch.labels = {0, 1};
  const auto gradient =
      Gradient(model.get(), batch, std::vector<float>(8, 0.0f));
  EXPECT_THAT(gradient,
              ElementsAre(0.75, 0.75, 0.75, -0.75, -0.75, -0.75, 0, 0));
}

}  // namespace
}  // namespace sluice

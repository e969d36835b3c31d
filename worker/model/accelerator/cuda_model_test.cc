// What a model computes on the CUDA device: on the machine's GPU where there is
// one, and emulated.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/testing/cuda_testing.h"
#include "worker/model/testing/model_testing.h"

namespace sluice {
namespace {

using kernels::NameOfSetting;
using kernels::Precision;
using kernels::SettingsIn;

class CudaModelTest : public kernels::CudaTest {};
SLUICE_CUDA_TEST_SUITE(CudaModelTest);

class CudaPrecisionModelTest : public kernels::CudaTest {};
SLUICE_CUDA_PRECISIONS_TEST_SUITE(CudaPrecisionModelTest);

// Every operation but those of LeNet, with tensors that begin at any multiple
// of 4 bytes.
constexpr char kMixedNet[] = R"(
  layer { conv2d { channels: 3 kernel: 3 padding: 1 bias: false } }
  layer { batch_norm {} }
  layer { gelu {} }
  layer { residual {
    layer { conv2d { channels: 5 kernel: 3 stride: 2 padding: 1 bias: false } }
    layer { batch_norm {} }
    layer { tanh {} }
  } }
  layer { average_pool { kernel: 2 stride: 1 } }
  layer { dropout { rate: 0.25 } }
  layer { max_pool { kernel: 2 stride: 1 } }
  layer { conv2d { channels: 7 kernel: 1 } }
  layer { group_norm { groups: 1 } }
  layer { sigmoid {} }
  layer { global_average_pool {} }
  layer { dense { units: 9 } }
  layer { dropout { rate: 0.5 } }
  layer { dense { units: 4 } }
)";

// A gradient has passed every layer twice, so it is off by at most `terms`, the
// sums' lengths of all layers, twice, in units of the largest of its tensor;
// the intermediate results are of about the same size. So is a rounding by the
// share `factor`, of which there are `roundings`.
void ExpectGradientsNear(const ResolvedJob& job, const std::vector<float>& got,
                         const std::vector<float>& want, double terms,
                         int roundings = 0, double factor = 0) {
  for (const TensorSpec& tensor : job.layout.tensors()) {
    float largest = 0;
    for (int64_t i = 0; i < tensor.size; ++i) {
      largest = std::max(largest, std::abs(want[tensor.offset + i]));
    }
    EXPECT_GT(largest, 0) << tensor.name;
    for (int64_t i = 0; i < tensor.size; ++i) {
      ASSERT_NEAR(got[tensor.offset + i], want[tensor.offset + i],
                  (2 * terms * kUnit + roundings * factor) * largest)
          << tensor.name << "[" << i << "]";
    }
  }
}

TEST_P(CudaPrecisionModelTest, ReluBehindALayerChangesNoBitByBeingPartOfIt) {
  for (const auto& [net, shape] :
       {std::pair{kLeNet, std::vector<int64_t>{1, 28, 28}},
        std::pair{kSmallResNet, std::vector<int64_t>{2, 6, 6}}}) {
    const ResolvedJob job = MakeJob(net, shape);
    const ResolvedJob apart = MakeJob(WithReluApart(net), shape);
    const auto weights = InitialWeights(job);
    const Batch batch = MakeBatch(job, 2, 5);
    EXPECT_TRUE(SameBits(
        Gradient(Create(job, 2, device_.get()).get(), batch, weights),
        Gradient(Create(apart, 2, device_.get()).get(), batch, weights)));
  }
}

TEST_P(CudaModelTest, LeNetIsComputedAsTheReferenceDoes) {
  const ResolvedJob job = MakeJob(kLeNet, {1, 28, 28});
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 7, 5);
  const auto fast = Create(job, 7, device_.get());
  const auto plain = Create(job, 7, reference_.get());
  constexpr double kTerms = 25 + 150 + 400 + 120 + 84;
  ExpectGradientsNear(job, Gradient(fast.get(), batch, weights),
                      Gradient(plain.get(), batch, weights), kTerms);
  const auto a = fast->Evaluate(batch, weights);
  const auto b = plain->Evaluate(batch, weights);
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_NEAR(a->loss, b->loss, 2 * kTerms * kUnit * b->loss);
  EXPECT_EQ(a->correct, b->correct);
}

// LeNet's channels without its kinks: which side of one a number lies on may
// turn with a rounding, and the gradient with it.
constexpr char kSmoothNet[] = R"(
  layer { conv2d { channels: 6 kernel: 5 padding: 2 } }
  layer { tanh {} }
  layer { average_pool { kernel: 2 } }
  layer { conv2d { channels: 10 kernel: 5 } }
  layer { tanh {} }
  layer { flatten {} }
  layer { dense { units: 24 } }
  layer { tanh {} }
  layer { dense { units: 10 } }
)";

TEST_P(CudaPrecisionModelTest, ASmoothNetIsComputedAsTheReferenceDoes) {
  const ResolvedJob job = MakeJob(kSmoothNet, {1, 16, 16});
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 7, 5);
  const auto fast = Create(job, 7, device_.get());
  const auto plain = Create(job, 7, reference_.get());
  constexpr double kTerms = 25 + 150 + 160 + 24;
  // Four layers, twice, of two factors and a result; each is seen in the
  // values and in the slopes of tanh.
  constexpr int kRoundings = 4 * 2 * 3 * 2;
  const double factor = rounding().factor;
  ExpectGradientsNear(job, Gradient(fast.get(), batch, weights),
                      Gradient(plain.get(), batch, weights), kTerms, kRoundings,
                      factor);
  const auto a = fast->Evaluate(batch, weights);
  const auto b = plain->Evaluate(batch, weights);
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_NEAR(a->loss, b->loss,
              (2 * kTerms * kUnit + kRoundings * factor) * b->loss);
}

TEST_P(CudaModelTest, EveryKindOfLayerIsComputedAsTheReferenceDoes) {
  const ResolvedJob job = MakeJob(kMixedNet, {2, 9, 9});
  auto weights = InitialWeights(job);
  // What begins as zeros, too, so that each gradient depends on it.
  for (size_t i = 0; i < weights.size(); ++i) weights[i] += 0.01f * (i % 7);
  const Batch batch = MakeBatch(job, 5, 5);
  // Behind a batch norm the largest gradient may be a few times smaller than
  // what cancels in it.
  constexpr double kTerms = 10 * (18 + 45 + 27 + 9 + 5 * 81 + 25);
  ExpectGradientsNear(
      job, Gradient(Create(job, 7, device_.get()).get(), batch, weights),
      Gradient(Create(job, 7, reference_.get()).get(), batch, weights), kTerms);
}

// The kinds without kinks, and images whose channels are no multiple of 8, are
// one, and are 8 or more.
constexpr char kSmoothImageNet[] = R"(
  layer { conv2d { channels: 3 kernel: 3 padding: 1 bias: false } }
  layer { batch_norm {} }
  layer { gelu {} }
  layer { residual {
    layer { conv2d { channels: 16 kernel: 3 stride: 2 padding: 1 bias: false } }
    layer { batch_norm {} }
    layer { tanh {} }
  } }
  layer { average_pool { kernel: 2 stride: 1 } }
  layer { dropout { rate: 0.25 } }
  layer { conv2d { channels: 8 kernel: 2 } }
  layer { sigmoid {} }
  layer { flatten {} }
  layer { dense { units: 9 } }
  layer { dropout { rate: 0.5 } }
  layer { dense { units: 4 } }
)";

constexpr char kTransformer[] = R"(
  layer { embedding { vocabulary: 7 features: 6 } }
  layer { residual {
    layer { layer_norm {} }
    layer { dense { units: 18 } }
    layer { attention { heads: 2 } }
    layer { dense { units: 6 } }
  } }
  layer { residual {
    layer { layer_norm {} }
    layer { dense { units: 24 } }
    layer { gelu {} }
    layer { dense { units: 6 } }
  } }
  layer { layer_norm {} }
  layer { tied_output {} }
)";

TEST_P(CudaModelTest, ATransformerIsComputedAsTheReferenceDoes) {
  const ResolvedJob job = MakeJob(kTransformer, {9});
  auto weights = InitialWeights(job);
  // Far from 0, so that each gradient depends on it.
  for (size_t i = 0; i < weights.size(); ++i) weights[i] += 0.1f * (i % 7);
  const Batch batch = MakeBatch(job, 5, 5);
  // Norms and scores stretch what came before them a few times.
  constexpr double kTerms = 10 * (4 * 6 + 5 * 9 + 2 * (5 * 9 + 24));
  const auto fast = Create(job, 7, device_.get());
  ExpectGradientsNear(
      job, Gradient(fast.get(), batch, weights),
      Gradient(Create(job, 7, reference_.get()).get(), batch, weights), kTerms);
}

// Roundings by at most the share `factor` that fall either way add up like the
// square root of their number; sums of `terms` numbers like that, too. Both of
// the root mean square of each tensor, and twice as much, since norms stretch
// what comes before them.
void ExpectNearInTheMean(const ResolvedJob& job, const std::vector<float>& got,
                         const std::vector<float>& want, int roundings,
                         double factor, double terms) {
  const double share = 2 * (std::sqrt(roundings) * factor + 2 * terms * kUnit);
  for (const TensorSpec& tensor : job.layout.tensors()) {
    double error = 0, size = 0;
    for (int64_t i = tensor.offset; i < tensor.offset + tensor.size; ++i) {
      error += std::pow(static_cast<double>(got[i]) - want[i], 2);
      size += std::pow(static_cast<double>(want[i]), 2);
    }
    EXPECT_GT(size, 0) << tensor.name;
    EXPECT_LE(std::sqrt(error / size), share) << tensor.name;
  }
}

// Of each layer's weights, results and gradients; forward and backward.
constexpr int RoundingsOf(int layers) { return layers * 3 * 2; }

TEST_P(CudaPrecisionModelTest, ImagesOfAnyChannelsAreComputedAsInTheReference) {
  const ResolvedJob job = MakeJob(kSmoothImageNet, {2, 9, 9});
  auto weights = InitialWeights(job);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] += 0.1f * (i % 7);
  const Batch batch = MakeBatch(job, 5, 5);
  ExpectNearInTheMean(
      job, Gradient(Create(job, 7, device_.get()).get(), batch, weights),
      Gradient(Create(job, 7, reference_.get()).get(), batch, weights),
      RoundingsOf(13), rounding().factor, 18 + 27 + 64 + 5 * 81 + 72 + 9);
}

TEST_P(CudaPrecisionModelTest, GroupsOfChannelsAreComputedAsInTheReference) {
  const ResolvedJob job = MakeJob(
      "layer { conv2d { channels: 12 kernel: 3 padding: 1 } }"
      "layer { group_norm { groups: 3 } } layer { tanh {} }"
      "layer { flatten {} } layer { dense { units: 4 } }",
      {2, 9, 9});
  auto weights = InitialWeights(job);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] += 0.1f * (i % 7);
  const Batch batch = MakeBatch(job, 5, 5);
  // Each is seen in the values and in the slopes, of the norm and of tanh.
  ExpectNearInTheMean(
      job, Gradient(Create(job, 7, device_.get()).get(), batch, weights),
      Gradient(Create(job, 7, reference_.get()).get(), batch, weights),
      2 * RoundingsOf(5), rounding().factor, 19 + 4 * 81 + 5 * 81 + 12 * 81);
}

TEST_P(CudaPrecisionModelTest, SequencesAreComputedAsInTheReference) {
  const ResolvedJob job = MakeJob(kTransformer, {9});
  auto weights = InitialWeights(job);
  for (size_t i = 0; i < weights.size(); ++i) weights[i] += 0.1f * (i % 7);
  const Batch batch = MakeBatch(job, 5, 5);
  ExpectNearInTheMean(
      job, Gradient(Create(job, 7, device_.get()).get(), batch, weights),
      Gradient(Create(job, 7, reference_.get()).get(), batch, weights),
      RoundingsOf(11), rounding().factor, 4 * 6 + 5 * 9 + 2 * (5 * 9 + 24));
}

TEST_P(CudaModelTest, AGradientIsAFunctionOfBatchAndWeightsAlone) {
  for (const auto& [net, shape] :
       {std::pair{kLeNet, std::vector<int64_t>{1, 28, 28}},
        std::pair{kMixedNet, std::vector<int64_t>{2, 9, 9}},
        std::pair{kTransformer, std::vector<int64_t>{9}}}) {
    const ResolvedJob job = MakeJob(net, shape);
    const auto weights = InitialWeights(job);
    const Batch full = MakeBatch(job, 6, 5), last = MakeBatch(job, 5, 6);
    const auto model = Create(job, 6, device_.get());
    const auto of_full = Gradient(model.get(), full, weights);
    const auto of_last = Gradient(model.get(), last, weights);
    // Again, after other work; and in a model prepared for just that size.
    EXPECT_TRUE(SameBits(Gradient(model.get(), full, weights), of_full));
    ASSERT_TRUE(model->Evaluate(MakeBatch(job, 3, 7), weights).ok());
    EXPECT_TRUE(SameBits(Gradient(model.get(), last, weights), of_last));
    const auto exact = Create(job, 5, device_.get());
    EXPECT_TRUE(SameBits(Gradient(exact.get(), last, weights), of_last));
  }
}

// Three copies' worth of weights (see gradient_array.h), the last with the
// few of the last layer.
constexpr char kWide[] =
    "layer { dense { units: 512 } } layer { relu {} }"
    "layer { dense { units: 600 } } layer { relu {} }"
    "layer { dense { units: 512 } } layer { relu {} }"
    "layer { dense { units: 10 } }";

TEST_P(CudaModelTest, WhatIsAnnouncedIsFinalInTheHostsMemory) {
  const ResolvedJob job = MakeJob(kWide, {784});
  const auto model = Create(job, 4, device_.get());
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 4, 5);
  const auto want = Gradient(model.get(), batch, weights);
  std::vector<float> gradient(weights.size(), std::nanf(""));
  int calls = 0;
  const auto result = Watched(
      model.get(), batch, weights, absl::MakeSpan(gradient), CancelToken(),
      {[&](int64_t from) {
        ++calls;
        EXPECT_EQ(std::memcmp(gradient.data() + from, want.data() + from,
                              (want.size() - from) * sizeof(float)),
                  0);
      }});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(calls, 3);
}

TEST_P(CudaModelTest, WhatWasCutShortLeavesNoTrace) {
  const ResolvedJob job = MakeJob(kWide, {784});
  const auto model = Create(job, 4, device_.get());
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 4, 5);
  std::vector<float> gradient(weights.size());
  CancelToken cancel;
  const auto cancelled =
      Watched(model.get(), batch, weights, absl::MakeSpan(gradient), cancel,
              {[&](int64_t) { cancel.Cancel(); }});
  // A GPU may be done with all layers when the first part has come.
  EXPECT_TRUE(absl::IsAborted(cancelled.status()) ||
              (on_gpu() && cancelled.ok()));
  const auto fresh = Create(job, 4, device_.get());
  EXPECT_TRUE(SameBits(Gradient(model.get(), batch, weights),
                       Gradient(fresh.get(), batch, weights)));
}

TEST_P(CudaPrecisionModelTest, TrainingSeparatesTwoHalves) {
  const ResolvedJob job = MakeJob(
      "layer { dense { units: 8 } } layer { relu {} }"
      "layer { dense { units: 2 } }",
      {4});
  const auto model = Create(job, 64, device_.get());
  Batch batch = MakeBatch(job, 64, 5);
  for (int n = 0; n < 64; ++n) {
    batch.labels[n] = batch.inputs[4 * n] + batch.inputs[4 * n + 1] > 0;
  }
  auto weights = InitialWeights(job);
  const double before = model->Evaluate(batch, weights)->loss;
  for (int step = 0; step < 60; ++step) {
    const auto gradient = Gradient(model.get(), batch, weights);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] -= 3 * gradient[i];
  }
  const auto after = model->Evaluate(batch, weights);
  EXPECT_LT(after->loss, before / 3);
  EXPECT_GE(after->correct, 60);
}

}  // namespace
}  // namespace sluice

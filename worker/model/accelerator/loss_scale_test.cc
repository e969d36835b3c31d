#include "worker/model/accelerator/loss_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/testing/cuda_testing.h"
#include "kernels/reference/reference_device.h"
#include "worker/model/testing/model_testing.h"

namespace sluice {
namespace {

using kernels::NameOfSetting;
using kernels::Precision;
using kernels::SettingsIn;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::Ne;

TEST(LossScaleTest, OnlyFp16Scales) {
  proto::Worker worker;
  EXPECT_EQ(FirstLossScale(worker, 256), 1);
  for (const auto precision :
       {proto::Worker::FP32, proto::Worker::TF32, proto::Worker::BF16}) {
    worker.set_precision(precision);
    EXPECT_EQ(FirstLossScale(worker, 256), 1);
  }
  worker.set_precision(proto::Worker::FP16);
  EXPECT_EQ(FirstLossScale(worker, 1), 1024);
}

TEST(LossScaleTest, TheScaleGrowsWithThePlacesThatALossIsAMeanOver) {
  proto::Worker worker;
  worker.set_precision(proto::Worker::FP16);
  EXPECT_EQ(FirstLossScale(worker, 256), 256 * 1024);
  EXPECT_EQ(FirstLossScale(worker, 3), 2 * 1024);
}

// On the reference device.
bool UnscaleTrained(float scale, const std::vector<ParameterRange>& trained,
                    std::vector<float>* gradient) {
  const auto device = kernels::MakeReferenceDevice();
  const auto vector = device->PrepareVector(trained);
  return *Unscale(scale, gradient->size(), vector->get(), gradient->data());
}

TEST(LossScaleTest, StatisticsAreNotScaled) {
  std::vector<float> gradient = {8, 8, 8, -16, 8};
  EXPECT_TRUE(UnscaleTrained(8, {{0, 1}, {3, 5}}, &gradient));
  EXPECT_THAT(gradient, ElementsAre(1, 8, 8, -2, 1));
}

TEST(LossScaleTest, WhatIsNotFiniteIsSeenWhereverItIs) {
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float bad : {infinity, -infinity, std::nanf("")}) {
    for (const int place : {0, 1, 2, 3}) {
      std::vector<float> gradient(4, 1);
      gradient[place] = bad;
      // A statistic is not a matter of the scale.
      EXPECT_EQ(UnscaleTrained(2, {{0, 2}, {3, 4}}, &gradient), place == 2);
    }
  }
}

class LossScaleModelTest : public kernels::CudaTest {
 protected:
  // Of a job that computes in `precision`.
  ResolvedJob Job(proto::Worker::Precision precision) {
    ResolvedJob job = MakeJob(
        "layer { dense { units: 8 bias: false } }"
        "layer { dense { units: 8 bias: false } }",
        {8});
    job.job.mutable_worker()->set_precision(precision);
    return job;
  }
  // Weights on both layers' diagonals.
  std::vector<float> Weights(float first, float second) {
    std::vector<float> weights(128);
    for (int i = 0; i < 8; ++i) {
      weights[9 * i] = first;
      weights[64 + 9 * i] = second;
    }
    return weights;
  }
  // Nothing is announced before the end, and then all is final.
  Model::Result Compute(Model* model, const Batch& batch,
                        const std::vector<float>& weights,
                        std::vector<float>* gradient) {
    gradient->assign(128, std::nanf(""));
    std::vector<int64_t> announced;
    std::vector<float> last;
    const auto result =
        Watched(model, batch, weights, absl::MakeSpan(*gradient), CancelToken(),
                {[&](int64_t from) {
                  announced.push_back(from);
                  last = *gradient;
                }});
    EXPECT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(announced.back(), 0);
    announced.pop_back();
    EXPECT_THAT(announced, Each(128));
    EXPECT_TRUE(SameBits(last, *gradient));
    return *result;
  }
  // In FP16 on the test's device.
  Model::Result Compute(const std::vector<float>& weights,
                        std::vector<float>* gradient) {
    const ResolvedJob job = Job(proto::Worker::FP16);
    return Compute(Create(job, 4, device_.get()).get(), MakeBatch(job, 4, 5),
                   weights, gradient);
  }
  // By the same model, without scaling.
  std::vector<float> Unscaled(kernels::Device* device,
                              const std::vector<float>& weights) {
    const ResolvedJob job = Job(proto::Worker::FP32);
    return Gradient(Create(job, 4, device).get(), MakeBatch(job, 4, 5),
                    weights);
  }
  // Of `samples` on the test's device: in FP16 scaled, in FP32 not.
  std::vector<float> GradientIn(proto::Worker::Precision precision,
                                ResolvedJob job, int samples) {
    job.job.mutable_worker()->set_precision(precision);
    return Gradient(Create(job, samples, device_.get()).get(),
                    MakeBatch(job, samples, 5), InitialWeights(job));
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, LossScaleModelTest,
                         testing::ValuesIn(SettingsIn({Precision::kFp16})),
                         NameOfSetting);

TEST_P(LossScaleModelTest, AScaleThatNothingNeedsLeavesNoTrace) {
  const auto weights = Weights(0.5, 0.5);
  std::vector<float> gradient;
  EXPECT_EQ(Compute(weights, &gradient).overflows, 0);
  // No factor is a denormal number.
  EXPECT_TRUE(SameBits(gradient, Unscaled(device_.get(), weights)));
}

TEST_P(LossScaleModelTest, NothingTravelsBeforeItIsUnscaled) {
  // Worth a copy of its own (see gradient_array.h), and more.
  const ResolvedJob job = MakeJob(
      "layer { dense { units: 500 } } layer { dense { units: 600 } }"
      "layer { dense { units: 3 } }",
      {4});
  const auto want = GradientIn(proto::Worker::FP32, job, 1);
  const auto got = GradientIn(proto::Worker::FP16, job, 1);
  for (size_t i = 0; i < want.size(); ++i) {
    // Without a scale small factors are rounded to FP16's denormal numbers.
    ASSERT_NEAR(got[i], want[i], 0x1p-10 * std::abs(want[i]) + 0x1p-20) << i;
  }
}

TEST_P(LossScaleModelTest, AGradientTooSmallForFp16IsNotLost) {
  // At the logits the gradient of four samples is at most 1/4, and so behind
  // the second layer 2^-26: a fourth of FP16's least number.
  const auto weights = Weights(0.5, 0x1p-24);
  std::vector<float> gradient;
  EXPECT_EQ(Compute(weights, &gradient).overflows, 0);
  const auto lost = Unscaled(device_.get(), weights);
  const auto want = Unscaled(reference_.get(), weights);
  for (int i = 0; i < 64; ++i) {
    EXPECT_EQ(lost[i], 0);
    // 1024 times as large, it has a last place of 2^-24; four samples.
    EXPECT_NEAR(gradient[i], want[i], 4 * 0x1p-24 / 1024);
    EXPECT_NE(gradient[i], 0);
  }
}

TEST_P(LossScaleModelTest, AnOverflowIsComputedAgainAtHalfTheScale) {
  // At a label's logit the gradient is 3/16 to 1/4 in size, behind the second
  // layer 4096 times as much. Scaled by 64 that is below 65520, by 128 above.
  const auto weights = Weights(0x1p-12, 4096);
  std::vector<float> gradient;
  EXPECT_EQ(Compute(weights, &gradient).overflows, 4);
  const auto want = Unscaled(reference_.get(), weights);
  for (const int layer : {0, 64}) {
    float largest = 0;
    for (int i = layer; i < layer + 64; ++i) {
      largest = std::max(largest, std::abs(want[i]));
    }
    for (int i = layer; i < layer + 64; ++i) {
      // Two layers, twice, of two roundings.
      EXPECT_NEAR(gradient[i], want[i], 8 * 0x1p-11 * largest);
    }
  }
}

TEST_P(LossScaleModelTest, StatisticsAreThoseOfThePassWhateverTheScale) {
  const ResolvedJob job = MakeJob(
      "layer { dense { units: 8 } } layer { batch_norm {} }"
      "layer { dense { units: 8 } }",
      {8});
  const auto want = GradientIn(proto::Worker::FP32, job, 4);
  const auto got = GradientIn(proto::Worker::FP16, job, 4);
  const ParameterRange statistics = job.layout.statistics()[0];
  ASSERT_EQ(statistics.size(), 16);
  for (int64_t i = statistics.begin; i < statistics.end; ++i) {
    EXPECT_NE(got[i], 0);
    EXPECT_EQ(got[i], want[i]);
  }
}

// Sequences of 16 tokens.
ResolvedJob SequenceJob(proto::Worker::Precision precision) {
  ResolvedJob job = MakeJob(
      "layer { embedding { vocabulary: 8 features: 8 } }"
      "layer { dense { units: 8 bias: false } }"
      "layer { dense { units: 8 bias: false } }",
      {16});
  job.job.mutable_worker()->set_precision(precision);
  return job;
}
constexpr int64_t kEmbedded = 8 * 8 + 16 * 8;  // Weights of the embedding.

TEST_P(LossScaleModelTest, NorIsThatOfALossThatIsAMeanOverPlaces) {
  // At the logits of four samples the gradient is at most 2^-6, so 2^-36 at the
  // embedding, and 1024 times that a fourth of FP16's least number.
  const ResolvedJob job = SequenceJob(proto::Worker::FP16);
  std::vector<float> weights(job.layout.size());
  for (int i = 0; i < 8; ++i) {
    weights[kEmbedded + 9 * i] = 0x1p-10;
    weights[kEmbedded + 64 + 9 * i] = 0x1p-20;
  }
  const Batch batch = MakeBatch(job, 4, 5);
  auto gradient = Gradient(Create(job, 4, device_.get()).get(), batch, weights);
  gradient.resize(kEmbedded);
  EXPECT_THAT(gradient, Contains(Ne(0)));
}

TEST_P(LossScaleModelTest, ALossThatIsASumOverPlacesBeginsAtTheSameScale) {
  ResolvedJob job = SequenceJob(proto::Worker::FP16);
  job.job.mutable_model()->set_loss(proto::Model::MEAN_SQUARED_ERROR);
  job.data.classification = false;
  Batch batch = MakeBatch(job, 4, 5);
  batch.targets.assign(4 * 16 * 8, 1e6);  // Overflows at every scale.
  const std::vector<float> weights(job.layout.size());
  std::vector<float> gradient(weights.size());
  const auto result =
      Create(job, 4, device_.get())
          ->ComputeGradient(batch, weights, absl::MakeSpan(gradient),
                            CancelToken());
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->overflows, 10);
}

TEST_P(LossScaleModelTest, TheScaleDoesNotDependOnWhatWasComputedBefore) {
  const ResolvedJob job = Job(proto::Worker::FP16);
  const Batch batch = MakeBatch(job, 4, 5);
  const auto model = Create(job, 4, device_.get());
  const auto weights = Weights(0x1p-12, 4096), others = Weights(0.5, 0.5);
  std::vector<float> first, again, other;
  const int overflows = Compute(model.get(), batch, weights, &first).overflows;
  EXPECT_EQ(Compute(model.get(), batch, others, &other).overflows, 0);
  EXPECT_EQ(Compute(model.get(), batch, weights, &again).overflows, overflows);
  EXPECT_TRUE(SameBits(first, again));
}

TEST_P(LossScaleModelTest, WhatOverflowsAtEveryScaleIsGivenAsItIs) {
  ResolvedJob job = Job(proto::Worker::FP16);
  job.job.mutable_model()->set_loss(proto::Model::MEAN_SQUARED_ERROR);
  job.data.classification = false;
  Batch batch = MakeBatch(job, 4, 5);
  batch.targets[7] = 1e6;  // The gradient is a fourth of it.
  std::vector<float> gradient;
  const auto result = Compute(Create(job, 4, device_.get()).get(), batch,
                              Weights(1, 1), &gradient);
  EXPECT_TRUE(std::isfinite(result.loss));
  EXPECT_EQ(result.overflows, 10);
  EXPECT_FALSE(UnscaleTrained(1, {{0, 128}}, &gradient));
}

TEST_P(LossScaleModelTest, ALossThatIsNotFiniteIsNotComputedAgain) {
  std::vector<float> gradient;
  const auto result =
      Compute(Weights(1, std::numeric_limits<float>::infinity()), &gradient);
  EXPECT_FALSE(std::isfinite(result.loss));
  EXPECT_EQ(result.overflows, 0);
}

}  // namespace
}  // namespace sluice

#include "worker/batch_gradient.h"

#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "common/resolved_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/model/make_device.h"
#include "worker/testing/fakes.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Remembers the samples of each forward pass.
class RecordingModel final : public Model {
 public:
  absl::StatusOr<Result> ComputeGradient(const Batch& batch,
                                         absl::Span<const float> weights,
                                         absl::Span<float> gradient,
                                         const CancelToken& cancel,
                                         const Observer& observer) override {
    passes.push_back(batch.inputs);
    ids.push_back(batch.id.value());
    firsts.push_back(batch.first);
    return fake.ComputeGradient(batch, weights, gradient, cancel, observer);
  }
  absl::StatusOr<Result> Evaluate(const Batch& batch,
                                  absl::Span<const float> weights) override {
    return fake.Evaluate(batch, weights);
  }

  FakeModel fake;
  std::vector<std::vector<float>> passes;
  std::vector<int64_t> ids;
  std::vector<int64_t> firsts;
};

// Ten samples in order, mini-batches of eight: the second has two.
BatchGradient::Options InOrder(int64_t micro_batch) {
  BatchGradient::Options options;
  options.sampling = {.train_samples = 10, .batch_size = 8, .shuffle = false};
  options.micro_batch = micro_batch;
  return options;
}

class BatchGradientTest : public ::testing::Test {
 protected:
  absl::StatusOr<BatchGradient::Result> Compute(int64_t micro_batch,
                                                int64_t batch) {
    gradient_.assign(4, -1);
    BatchGradient compute(InOrder(micro_batch), &data_, &model_);
    return compute.Compute(BatchId(batch), weights_, absl::MakeSpan(gradient_),
                           token_, observer_);
  }

  FakeDataSource data_{10};
  RecordingModel model_;
  CancelToken token_;
  BatchGradient::Observer observer_;
  const std::vector<float> weights_ = {1, 2, 3, 4};
  std::vector<float> gradient_;
};

TEST_F(BatchGradientTest, AMiniBatchIsComputedInPartsInOrder) {
  ASSERT_TRUE(Compute(3, 0).ok());
  EXPECT_THAT(model_.passes,
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5),
                          ElementsAre(6, 7)));
}

TEST_F(BatchGradientTest, TheOverflowsOfAllPartsAreCounted) {
  model_.fake.overflows = 2;
  EXPECT_EQ(Compute(3, 0)->overflows, 3 * 2);
  EXPECT_EQ(Compute(8, 0)->overflows, 2);
}

TEST_F(BatchGradientTest, EachPartCountsByItsSamples) {
  // The parts' means are 1, 4 and 6.5; their shares 3/8, 3/8 and 2/8.
  const auto result = Compute(3, 0);
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(gradient_, ElementsAre(4.5, 5.5, 6.5, 7.5));
  EXPECT_EQ(result->samples, 8);
  EXPECT_EQ(result->loss, 3.5);
}

TEST_F(BatchGradientTest, AShortMiniBatchIsItsOwnWhole) {
  const auto result = Compute(3, 1);
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(model_.passes, ElementsAre(ElementsAre(8, 9)));
  EXPECT_THAT(gradient_, ElementsAre(9.5, 10.5, 11.5, 12.5));
  EXPECT_EQ(result->loss, 8.5);
}

TEST_F(BatchGradientTest, ALargeMicroBatchSplitsNothing) {
  for (const int64_t micro : {8, 9, 1 << 20}) {
    model_.passes.clear();
    ASSERT_TRUE(Compute(micro, 0).ok());
    EXPECT_EQ(model_.passes.size(), 1);
  }
}

TEST_F(BatchGradientTest, ItIsFinalDuringTheLastBackwardPassOnly) {
  std::vector<int64_t> offers;
  std::vector<float> at_half;
  observer_.on_ready = [&](int64_t from) {
    offers.push_back(from);
    if (from == 2) at_half = {gradient_[2], gradient_[3]};
    EXPECT_EQ(model_.passes.size(), 3);
  };
  ASSERT_TRUE(Compute(3, 0).ok());
  EXPECT_THAT(offers, ElementsAre(2, 0));
  EXPECT_THAT(at_half, ElementsAre(6.5, 7.5));
}

TEST_F(BatchGradientTest, PassesAreTold) {
  std::string told;
  observer_.on_forward = [&] { told += 'f'; };
  observer_.on_backward = [&] { told += 'b'; };
  ASSERT_TRUE(Compute(4, 0).ok());
  EXPECT_EQ(told, "fbfb");
}

TEST_F(BatchGradientTest, TheWholeIsClippedNotItsPartsAndThenAnnounced) {
  for (const int64_t micro : {3, 8}) {
    ASSERT_TRUE(Compute(micro, 0).ok());
    const std::vector<float> whole = gradient_;  // 4.5, 5.5, 6.5, 7.5
    std::vector<std::vector<float>> announced;
    observer_.on_ready = [&](int64_t from) {
      EXPECT_EQ(from, 0);
      announced.push_back(gradient_);
    };
    BatchGradient::Options options = InOrder(micro);
    options.clip_norm = 1.5;
    BatchGradient compute(options, &data_, &model_);
    ASSERT_TRUE(compute
                    .Compute(BatchId(0), weights_, absl::MakeSpan(gradient_),
                             token_, observer_)
                    .ok());
    observer_ = {};
    const float factor = static_cast<float>(
        1.5 / std::sqrt(4.5 * 4.5 + 5.5 * 5.5 + 6.5 * 6.5 + 7.5 * 7.5));
    for (int i = 0; i < 4; ++i) EXPECT_EQ(gradient_[i], factor * whole[i]);
    EXPECT_THAT(announced, ElementsAre(gradient_));
  }
}

TEST_F(BatchGradientTest, ClippingLeavesRunningStatisticsAsTheyAre) {
  ASSERT_TRUE(Compute(3, 0).ok());
  const std::vector<float> whole = gradient_;
  BatchGradient::Options options = InOrder(3);
  options.clip_norm = 1.5;
  options.statistics = {{1, 2}};
  BatchGradient compute(options, &data_, &model_);
  ASSERT_TRUE(compute
                  .Compute(BatchId(0), weights_, absl::MakeSpan(gradient_),
                           token_, observer_)
                  .ok());
  EXPECT_EQ(gradient_[1], whole[1]);
  const float factor =
      static_cast<float>(1.5 / std::sqrt(4.5 * 4.5 + 6.5 * 6.5 + 7.5 * 7.5));
  for (const int i : {0, 2, 3}) EXPECT_EQ(gradient_[i], factor * whole[i]);
}

TEST_F(BatchGradientTest, EachPartKnowsItsPlaceInTheRun) {
  ASSERT_TRUE(Compute(3, 2).ok());
  EXPECT_THAT(model_.ids, ElementsAre(2, 2, 2));
  EXPECT_THAT(model_.firsts, ElementsAre(0, 3, 6));
}

TEST_F(BatchGradientTest, ACancelBetweenMicroBatchesStops) {
  observer_.on_forward = [&] {
    if (model_.passes.size() == 1) token_.Cancel();
  };
  std::vector<int64_t> offers;
  observer_.on_ready = [&](int64_t from) { offers.push_back(from); };
  EXPECT_TRUE(absl::IsAborted(Compute(3, 0).status()));
  EXPECT_EQ(model_.passes.size(), 2);
  EXPECT_THAT(offers, IsEmpty());
}

// Images of 1 x 4 pixels that count on.
class FakeImages final : public DataSource {
 public:
  int64_t size() const override { return 10; }
  void Gather(absl::Span<const int64_t> indices, Batch* batch) const override {
    batch->samples = static_cast<int64_t>(indices.size());
    batch->inputs.clear();
    for (const int64_t i : indices) {
      for (int p = 0; p < 4; ++p) batch->inputs.push_back(10 * i + p);
    }
  }
};

TEST(AugmentedBatchGradientTest, PartsAreAugmentedByTheirPlaceInTheMiniBatch) {
  const auto seen = [](int64_t micro_batch, bool flip, int64_t batch) {
    BatchGradient::Options options = InOrder(micro_batch);
    options.augmentation.emplace(AugmentationOptions{
        .height = 1, .width = 4, .horizontal_flip = flip, .background = {0}});
    const FakeImages images;
    RecordingModel model;
    BatchGradient compute(options, &images, &model);
    const std::vector<float> weights(4);
    std::vector<float> gradient(4);
    EXPECT_TRUE(compute
                    .Compute(BatchId(batch), weights, absl::MakeSpan(gradient),
                             CancelToken(), {})
                    .ok());
    std::vector<float> all;
    for (const auto& pass : model.passes) {
      all.insert(all.end(), pass.begin(), pass.end());
    }
    return all;
  };
  EXPECT_EQ(seen(3, true, 0), seen(8, true, 0));
  EXPECT_NE(seen(8, true, 0), seen(8, false, 0));
  // The same samples one epoch later.
  EXPECT_EQ(seen(8, false, 0), seen(8, false, 2));
  EXPECT_NE(seen(8, true, 0), seen(8, true, 2));
}

// One dense layer on each device: the bound that the header states.
class OneDenseLayerTest : public ::testing::TestWithParam<const char*> {};

TEST_P(OneDenseLayerTest, TheSplitGradientIsWithinTheBoundOfTheWhole) {
  constexpr int64_t kSamples = 61;
  const auto job = ParseJob(
      absl::StrCat("data { linear_regression { features: 37 train_samples: ",
                   kSamples, " noise: 1 } batch_size: ", kSamples,
                   " } model { layer { dense { units: 1 } } } worker { "
                   "device: ",
                   GetParam(), " } stop { updates: 1 }"),
      "test", {});
  ASSERT_TRUE(job.ok()) << job.status();
  const auto device = MakeDevice(job->job.worker(), WorkerId(0));
  ASSERT_TRUE(device.ok());
  const auto model = Model::Create(*job, kSamples, device->get());
  ASSERT_TRUE(model.ok());
  const auto data = OpenDataSource(job->job.data(), Split::kTrain, 1);
  ASSERT_TRUE(data.ok());
  const int64_t floats = job->layout.size();
  const std::vector<float> weights = job->layout.InitialWeights(1, {0, floats});
  const auto gradient_of = [&](const BatchSampling& sampling,
                               int64_t micro_batch, int64_t batch) {
    std::vector<float> gradient(floats);
    BatchGradient::Options options;
    options.sampling = sampling;
    options.micro_batch = micro_batch;
    BatchGradient compute(options, data->get(), model->get());
    EXPECT_TRUE(compute
                    .Compute(BatchId(batch), weights, absl::MakeSpan(gradient),
                             CancelToken(), {})
                    .ok());
    return gradient;
  };
  const BatchSampling whole = {.train_samples = kSamples,
                               .batch_size = kSamples};
  std::vector<double> mean_size(floats);
  for (int64_t s = 0; s < kSamples; ++s) {
    const auto alone =
        gradient_of({.train_samples = kSamples, .batch_size = 1}, 1, s);
    for (int64_t i = 0; i < floats; ++i) {
      mean_size[i] += std::abs(alone[i]) / static_cast<double>(kSamples);
    }
  }
  const std::vector<float> unsplit = gradient_of(whole, kSamples, 0);
  for (const int64_t micro : {1, 7, 30, 60}) {
    const std::vector<float> split = gradient_of(whole, micro, 0);
    const int64_t parts = (kSamples + micro - 1) / micro;
    for (int64_t i = 0; i < floats; ++i) {
      EXPECT_NEAR(split[i], unsplit[i],
                  2 * (kSamples + 3 * parts) * 0x1p-24 * mean_size[i])
          << "micro-batches of " << micro << ", element " << i;
    }
    EXPECT_EQ(gradient_of(whole, micro, 0), split);
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, OneDenseLayerTest,
                         ::testing::Values("REFERENCE", "CPU"),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace sluice

#include "worker/compute/native_gradient.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/job/resolved_job.h"
#include "common/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/numerics.h"
#include "worker/model/make_device.h"
#include "worker/model/testing/separate_memory_device.h"
#include "worker/testing/fakes.h"
#include "worker/testing/watched_flow.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

// Ten samples in order, mini-batches of eight: the second has two.
NativeGradient::Options InOrder(int64_t micro_batch) {
  NativeGradient::Options options;
  options.sampling = {.train_samples = 10, .batch_size = 8, .shuffle = false};
  options.micro_batch = micro_batch;
  return options;
}

bool ComputeInPlace(NativeGradient* compute, BatchId batch,
                    const std::vector<float>& weights,
                    std::vector<float>* gradient) {
  WeightsInPlace from(weights);
  GradientInPlace into(absl::MakeSpan(*gradient));
  TaskProgress unheard;
  return compute->Compute({.first = batch}, from, into, CancelToken(), &unheard)
      .ok();
}

class NativeGradientTest : public ::testing::Test {
 protected:
  absl::StatusOr<Model::Result> Compute(int64_t micro_batch, int64_t batch) {
    gradient_.assign(4, -1);
    NativeGradient compute(InOrder(micro_batch), &data_, model_.get());
    return Compute(&compute, {.first = BatchId(batch)});
  }
  absl::StatusOr<Model::Result> Compute(
      NativeGradient* compute, const NativeGradient::Batches& batches) {
    WeightsInPlace from(weights_);
    WatchedGradient into(absl::MakeSpan(gradient_), {on_final_});
    progress_ = TaskProgress();
    SLUICE_ASSIGN_OR_RETURN(
        const auto computed,
        compute->Compute(batches, from, into, token_, &progress_));
    return std::get<Model::Result>(computed);
  }

  // The inputs of each forward pass.
  std::vector<std::vector<float>> Passes() const {
    std::vector<std::vector<float>> inputs;
    for (const Batch& batch : model_->passes) inputs.push_back(batch.inputs);
    return inputs;
  }

  FakeDataSource data_{10};
  FakeModel model_;
  CancelToken token_;
  TaskProgress progress_;
  std::function<void(int64_t from)> on_final_ = [](int64_t) {};
  const std::vector<float> weights_ = {1, 2, 3, 4};
  std::vector<float> gradient_ = std::vector<float>(4, -1);
};

TEST_F(NativeGradientTest, AMiniBatchIsComputedInPartsInOrder) {
  ASSERT_TRUE(Compute(3, 0).ok());
  EXPECT_THAT(Passes(), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5),
                                    ElementsAre(6, 7)));
}

TEST_F(NativeGradientTest, TheOverflowsOfAllPartsAreCounted) {
  model_->overflows = 2;
  EXPECT_EQ(Compute(3, 0)->overflows, 3 * 2);
  EXPECT_EQ(Compute(8, 0)->overflows, 2);
}

TEST_F(NativeGradientTest, MiniBatchesFollowOneAnother) {
  NativeGradient compute(InOrder(3), &data_, model_.get());
  model_->overflows = 2;
  const auto result =
      Compute(&compute, {.first = BatchId(4), .count = 2, .rate = 0.5});
  ASSERT_TRUE(result.ok()) << result.status();
  std::vector<std::pair<BatchId, int64_t>> passes;
  for (const Batch& batch : model_->passes) {
    passes.emplace_back(batch.id, batch.first);
  }
  // The second is the last of its epoch, and has two samples.
  const std::pair<BatchId, int64_t> want[] = {
      {BatchId(4), 0}, {BatchId(4), 3}, {BatchId(4), 6}, {BatchId(5), 0}};
  EXPECT_THAT(passes, ElementsAreArray(want));
  EXPECT_EQ(result->samples, 10);
  EXPECT_EQ(result->loss, 4.5);
  EXPECT_EQ(result->correct, 1 + 1 + 1 + 1);
  EXPECT_EQ(result->overflows, 4 * 2);
  // 3.5 + w, and 8.5 + w - (3.5 + w) / 2.
  EXPECT_THAT(gradient_, ElementsAre(11.75, 13.25, 14.75, 16.25));
}

TEST_F(NativeGradientTest, EachPartCountsByItsSamples) {
  // The parts' means are 1, 4 and 6.5; their shares 3/8, 3/8 and 2/8.
  const auto result = Compute(3, 0);
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(gradient_, ElementsAre(4.5, 5.5, 6.5, 7.5));
  EXPECT_EQ(result->samples, 8);
  EXPECT_EQ(result->loss, 3.5);
}

TEST_F(NativeGradientTest, AShortMiniBatchIsItsOwnWhole) {
  const auto result = Compute(3, 1);
  ASSERT_TRUE(result.ok());
  EXPECT_THAT(Passes(), ElementsAre(ElementsAre(8, 9)));
  EXPECT_THAT(gradient_, ElementsAre(9.5, 10.5, 11.5, 12.5));
  EXPECT_EQ(result->loss, 8.5);
}

TEST_F(NativeGradientTest, ALargeMicroBatchSplitsNothing) {
  for (const int64_t micro : {8, 9, 1 << 20}) {
    model_->passes.clear();
    ASSERT_TRUE(Compute(micro, 0).ok());
    EXPECT_EQ(model_->passes.size(), 1);
  }
}

TEST_F(NativeGradientTest, ItIsFinalDuringTheLastBackwardPassOnly) {
  std::vector<int64_t> offers;
  std::vector<float> at_half;
  on_final_ = [&](int64_t from) {
    offers.push_back(from);
    if (from == 2) at_half = {gradient_[2], gradient_[3]};
    EXPECT_EQ(model_->passes.size(), 3);
  };
  ASSERT_TRUE(Compute(3, 0).ok());
  EXPECT_THAT(offers, ElementsAre(2, 0));
  EXPECT_THAT(at_half, ElementsAre(6.5, 7.5));
}

// Knows what memory of the host is registered.
class RegisteringDevice : public SeparateMemoryDevice {
 public:
  using Ranges = std::map<const float*, size_t>;  // Floats at each address.
  explicit RegisteringDevice(Ranges* ranges) : ranges_(*ranges) {}
  std::unique_ptr<kernels::Registration> Register(void* host,
                                                  int64_t bytes) override {
    return std::make_unique<Entry>(static_cast<const float*>(host),
                                   bytes / sizeof(float), &ranges_);
  }

 private:
  struct Entry : public kernels::Registration {
    Entry(const float* begin, size_t size, Ranges* ranges)
        : begin(begin), ranges(*ranges) {
      EXPECT_TRUE(ranges->emplace(begin, size).second);
    }
    ~Entry() override { ranges.erase(begin); }
    const float* const begin;
    Ranges& ranges;
  };

  Ranges& ranges_;
};

// Gathers into memory that is registered.
class RegisteredSource : public DataSource {
 public:
  RegisteredSource(const DataSource* source,
                   const RegisteringDevice::Ranges* ranges)
      : source_(*source), ranges_(*ranges) {}
  int64_t size() const override { return source_.size(); }
  absl::Status Gather(absl::Span<const int64_t> indices,
                      Batch* batch) const override {
    SLUICE_RETURN_IF_ERROR(source_.Gather(indices, batch));
    EXPECT_TRUE(ranges_.contains(batch->inputs.data()));
    return absl::OkStatus();
  }

 private:
  const DataSource& source_;
  const RegisteringDevice::Ranges& ranges_;
};

TEST_F(NativeGradientTest, WhatTravelsToAndFromADeviceIsRegisteredWithIt) {
  RegisteringDevice::Ranges ranges;
  FakeModel model(LayoutOfFour(), std::make_unique<RegisteringDevice>(&ranges));
  NativeGradient::Options options = InOrder(5);
  options.parameters = 4;
  options.inputs = 1;
  const RegisteredSource source(&data_, &ranges);
  {
    NativeGradient compute(options, &source, model.get());
    for (int again = 0; again < 2; ++again) {
      for (const absl::Span<float> vector :
           {compute.Weights(0), compute.Weights(1), compute.Gradient()}) {
        EXPECT_EQ(ranges[vector.data()], 4);
      }
    }
    // Parts of 2, 5 and 3 samples, whose memory stays where it is.
    ASSERT_TRUE(Compute(&compute, {.first = BatchId(1), .count = 4}).ok());
    EXPECT_EQ(model->passes.size(), 1 + 2 + 1 + 2);
    EXPECT_EQ(ranges.size(), 3 + 2);
  }
  EXPECT_THAT(ranges, IsEmpty());
}

TEST_F(NativeGradientTest, PassesAreTold) {
  ASSERT_TRUE(Compute(4, 0).ok());
  progress_.End();
  // The first one's forward begins with the first weights.
  std::string told;
  for (const auto& span : progress_.spans()) told += StageName(span.stage)[0];
  EXPECT_EQ(told, "pbfb");
}

TEST_F(NativeGradientTest, TheWholeIsClippedNotItsPartsAndThenAnnounced) {
  for (const int64_t micro : {3, 8}) {
    ASSERT_TRUE(Compute(micro, 0).ok());
    const std::vector<float> whole = gradient_;  // 4.5, 5.5, 6.5, 7.5
    std::vector<std::vector<float>> announced;
    on_final_ = [&](int64_t from) {
      EXPECT_EQ(from, 0);
      announced.push_back(gradient_);
    };
    NativeGradient::Options options = InOrder(micro);
    options.clip_norm = 1.5;
    NativeGradient compute(options, &data_, model_.get());
    ASSERT_TRUE(Compute(&compute, {.first = BatchId(0)}).ok());
    on_final_ = [](int64_t) {};
    const float factor = static_cast<float>(
        1.5 / std::sqrt(4.5 * 4.5 + 5.5 * 5.5 + 6.5 * 6.5 + 7.5 * 7.5));
    for (int i = 0; i < 4; ++i) EXPECT_EQ(gradient_[i], factor * whole[i]);
    EXPECT_THAT(announced, ElementsAre(gradient_));
  }
}

TEST_F(NativeGradientTest, ClippingLeavesRunningStatisticsAsTheyAre) {
  ASSERT_TRUE(Compute(3, 0).ok());
  const std::vector<float> whole = gradient_;
  NativeGradient::Options options = InOrder(3);
  options.clip_norm = 1.5;
  const FakeModel model(LayoutOfFour(/*has_statistic=*/true));
  NativeGradient compute(options, &data_, model.get());
  ASSERT_TRUE(Compute(&compute, {.first = BatchId(0)}).ok());
  EXPECT_EQ(gradient_[1], whole[1]);
  const float factor =
      static_cast<float>(1.5 / std::sqrt(4.5 * 4.5 + 6.5 * 6.5 + 7.5 * 7.5));
  for (const int i : {0, 2, 3}) EXPECT_EQ(gradient_[i], factor * whole[i]);
}

TEST_F(NativeGradientTest, EachPartKnowsItsPlaceInTheRun) {
  ASSERT_TRUE(Compute(3, 2).ok());
  std::vector<int64_t> firsts;
  for (const Batch& batch : model_->passes) {
    EXPECT_EQ(batch.id, BatchId(2));
    firsts.push_back(batch.first);
  }
  EXPECT_THAT(firsts, ElementsAre(0, 3, 6));
}

// Reads a part, but the first, when the one before it is computed, and says
// when it has.
class MeetingSource final : public DataSource {
 public:
  int64_t size() const override { return source_.size(); }
  absl::Status Gather(absl::Span<const int64_t> indices,
                      Batch* batch) const override {
    EXPECT_TRUE(kernels::NumericModeIsSet());
    absl::MutexLock lock(&mu_);
    EXPECT_TRUE(Await([this]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return computed_ >= read_;
    }));
    ++read_;
    return source_.Gather(indices, batch);
  }
  // To be called when a part is computed, and so many will have been read.
  void Compute(int read) {
    absl::MutexLock lock(&mu_);
    ++computed_;
    EXPECT_TRUE(Await([this, read]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return read_ == read;
    }));
  }

 private:
  // Not forever.
  template <typename Condition>
  bool Await(const Condition& condition) const {
    return mu_.AwaitWithTimeout(absl::Condition(&condition), absl::Seconds(20));
  }

  const FakeDataSource source_{10};
  mutable absl::Mutex mu_;
  mutable int read_ ABSL_GUARDED_BY(mu_) = 0;
  int computed_ ABSL_GUARDED_BY(mu_) = 0;
};

TEST_F(NativeGradientTest, EachPartIsReadWhileTheOneBeforeItIsComputed) {
  kernels::SetNumericMode();
  MeetingSource source;
  NativeGradient compute(InOrder(3), &source, model_.get());
  // Three parts and one, of which none follows.
  constexpr int kParts = 4;
  model_->on_forward = [&] {
    const int parts = static_cast<int>(model_->passes.size());
    source.Compute(std::min(parts + 1, kParts));
  };
  ASSERT_TRUE(Compute(&compute, {.first = BatchId(0), .count = 2}).ok());
  EXPECT_EQ(model_->passes.size(), kParts);
}

TEST_F(NativeGradientTest, OnlyTasksOfSeveralPartsTakeMemoryForTwo) {
  NativeGradient compute(InOrder(8), &data_, model_.get());
  const auto run = [&](int batches) {
    return Compute(&compute, {.first = BatchId(0), .count = batches}).status();
  };
  for (int task = 0; task < 3; ++task) ASSERT_TRUE(run(1).ok());
  EXPECT_EQ(model_->places.size(), 1);
  ASSERT_TRUE(run(3).ok());
  EXPECT_EQ(model_->places.size(), 2);
}

TEST_F(NativeGradientTest, WhatWasReadForATaskThatIsCutShortIsNotOfTheNextOne) {
  NativeGradient compute(InOrder(3), &data_, model_.get());
  token_.Cancel();
  const auto run = [&](int64_t batch) {
    return Compute(&compute, {.first = BatchId(batch), .count = 2}).status();
  };
  EXPECT_TRUE(absl::IsAborted(run(1)));
  token_.Reset();
  model_->passes.clear();
  ASSERT_TRUE(run(0).ok());
  EXPECT_THAT(Passes(), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5),
                                    ElementsAre(6, 7), ElementsAre(8, 9)));
}

TEST_F(NativeGradientTest, ACancelBetweenMicroBatchesStops) {
  model_->on_forward = [&] {
    if (model_->passes.size() == 2) token_.Cancel();
  };
  std::vector<int64_t> offers;
  on_final_ = [&](int64_t from) { offers.push_back(from); };
  EXPECT_TRUE(absl::IsAborted(Compute(3, 0).status()));
  EXPECT_EQ(model_->passes.size(), 2);
  EXPECT_THAT(offers, IsEmpty());
}

// Says which samples were read, and fails on one of them.
class SlowSource final : public DataSource {
 public:
  int64_t size() const override { return source_.size(); }
  bool worth_guessing() const override { return true; }
  absl::Status Gather(absl::Span<const int64_t> indices,
                      Batch* batch) const override {
    absl::MutexLock lock(&mu_);
    reads_.emplace_back(indices.begin(), indices.end());
    for (const int64_t i : indices) {
      if (i == fails_on) return absl::DataLossError("sample is damaged");
    }
    return source_.Gather(indices, batch);
  }
  std::vector<std::vector<int64_t>> reads() const {
    absl::MutexLock lock(&mu_);
    return reads_;
  }

  int64_t fails_on = -1;  // Set before anything is read.

 private:
  const FakeDataSource source_{10};
  mutable absl::Mutex mu_;
  mutable std::vector<std::vector<int64_t>> reads_ ABSL_GUARDED_BY(mu_);
};

TEST_F(NativeGradientTest, ARightGuessIsReadOnceAndAWrongOneAgain) {
  SlowSource source;
  const auto compute =
      std::make_unique<NativeGradient>(InOrder(8), &source, model_.get());
  // Mini-batches of 8 and 2: after 0 comes 1, then, wrongly guessed, not 2.
  for (const int64_t batch : {0, 1, 1}) {
    ASSERT_TRUE(Compute(compute.get(), {.first = BatchId(batch)}).ok());
  }
  const std::vector<int64_t> zero = {0, 1, 2, 3, 4, 5, 6, 7}, one = {8, 9};
  EXPECT_THAT(Passes(), ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6, 7),
                                    ElementsAre(8, 9), ElementsAre(8, 9)));
  const auto reads = source.reads();  // And perhaps what is guessed behind it.
  ASSERT_GE(reads.size(), 4);
  EXPECT_THAT(std::vector(reads.begin(), reads.begin() + 4),
              ElementsAre(zero, one, zero, one));
}

TEST_F(NativeGradientTest, WhileGuessesAreRightEachMiniBatchIsReadOnce) {
  SlowSource source;
  {
    NativeGradient compute(InOrder(8), &source, model_.get());
    for (int64_t batch = 0; batch < 5; ++batch) {
      ASSERT_TRUE(Compute(&compute, {.first = BatchId(batch)}).ok());
    }
  }
  EXPECT_EQ(source.reads().size(), 5 + 1);  // And what would come next.
}

TEST_F(NativeGradientTest, BetweenTasksTheNextIsReadOnceGuessesAreRight) {
  const FakeDataSource source(10);
  NativeGradient compute(InOrder(8), &source, model_.get());
  std::vector<int> gathered;
  // Mini-batches of 8 and 2; 4 is guessed, and 2 comes again.
  for (const int64_t batch : {0, 1, 2, 3, 2}) {
    ASSERT_TRUE(Compute(&compute, {.first = BatchId(batch)}).ok());
    gathered.push_back(source.gathered);
    compute.PrepareNext();
    gathered.push_back(source.gathered);
  }
  EXPECT_THAT(gathered, ElementsAre(1, 1, 2, 3, 3, 4, 4, 5, 6, 6));
  EXPECT_THAT(
      Passes(),
      ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5, 6, 7), ElementsAre(8, 9),
                  ElementsAre(0, 1, 2, 3, 4, 5, 6, 7), ElementsAre(8, 9),
                  ElementsAre(0, 1, 2, 3, 4, 5, 6, 7)));
}

TEST_F(NativeGradientTest, ARightGuessIsTheFirstOfSeveralParts) {
  SlowSource source;
  NativeGradient compute(InOrder(3), &source, model_.get());
  for (const int64_t batch : {0, 1, 2}) {
    ASSERT_TRUE(Compute(&compute, {.first = BatchId(batch)}).ok());
  }
  EXPECT_THAT(Passes(), ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5),
                                    ElementsAre(6, 7), ElementsAre(8, 9),
                                    ElementsAre(0, 1, 2), ElementsAre(3, 4, 5),
                                    ElementsAre(6, 7)));
}

TEST_F(NativeGradientTest, ASampleThatCannotBeReadEndsItsTaskAndNoOther) {
  SlowSource source;
  source.fails_on = 9;
  NativeGradient compute(InOrder(3), &source, model_.get());
  // Mini-batch 1, which fails, is guessed and then not asked for.
  for (const int64_t batch : {0, 2}) {
    ASSERT_TRUE(Compute(&compute, {.first = BatchId(batch)}).ok());
  }
  const absl::Status status = Compute(&compute, {.first = BatchId(3)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(status.message(), "sample is damaged");
}

// Images of 1 x 4 pixels that count on.
class FakeImages final : public DataSource {
 public:
  int64_t size() const override { return 10; }
  absl::Status Gather(absl::Span<const int64_t> indices,
                      Batch* batch) const override {
    batch->samples = static_cast<int64_t>(indices.size());
    batch->inputs.clear();
    for (const int64_t i : indices) {
      for (int p = 0; p < 4; ++p) batch->inputs.push_back(10 * i + p);
    }
    return absl::OkStatus();
  }
};

TEST(AugmentedTaskGradientTest, PartsAreAugmentedByTheirPlaceInTheMiniBatch) {
  const auto seen = [](int64_t micro_batch, bool flip, int64_t batch) {
    NativeGradient::Options options = InOrder(micro_batch);
    options.augmentation.emplace(AugmentationOptions{
        .height = 1, .width = 4, .horizontal_flip = flip, .background = {0}});
    const FakeImages images;
    const FakeModel model;
    NativeGradient compute(options, &images, model.get());
    const std::vector<float> weights(4);
    std::vector<float> gradient(4);
    EXPECT_TRUE(ComputeInPlace(&compute, BatchId(batch), weights, &gradient));
    std::vector<float> all;
    for (const Batch& pass : model->passes) {
      all.insert(all.end(), pass.inputs.begin(), pass.inputs.end());
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
  const auto device = MakeDevice(job->job.worker(), 0);
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
    NativeGradient::Options options;
    options.sampling = sampling;
    options.micro_batch = micro_batch;
    NativeGradient compute(options, data->get(), model->get());
    EXPECT_TRUE(ComputeInPlace(&compute, BatchId(batch), weights, &gradient));
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

// Gradients of several mini-batches and parts: what a model makes of them, and
// what travels.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/testing/cuda_testing.h"
#include "worker/model/testing/model_testing.h"
#include "worker/model/testing/separate_memory_device.h"

namespace sluice {
namespace {

using kernels::NameOfSetting;
using kernels::Precision;
using kernels::SettingsIn;
using ::testing::ElementsAre;

constexpr char kNet[] = R"(
  layer { dense { units: 5 } }
  layer { batch_norm {} }
  layer { tanh {} }
  layer { dropout { rate: 0.25 } }
  layer { dense { units: 3 } }
)";

constexpr int kSamples = 4;  // At most in a part.

ResolvedJob NetJob(Precision precision = Precision::kFp32) {
  ResolvedJob job = MakeJob(kNet, {4});
  if (precision == Precision::kFp16) {
    job.job.mutable_worker()->set_precision(proto::Worker::FP16);
  }
  return job;
}

std::vector<float> Sum(Model* model, const Model::Steps& steps,
                       const std::vector<float>& weights,
                       const Watch& watch = {}) {
  std::vector<float> gradient(weights.size(), std::nanf(""));
  const auto result = Watched(model, steps, weights, absl::MakeSpan(gradient),
                              CancelToken(), watch);
  EXPECT_TRUE(result.ok()) << result.status();
  return gradient;
}

void Clip(const ResolvedJob& job, double limit, std::vector<float>* gradient) {
  double squares = 0;
  for (const ParameterRange& range : job.layout.trained()) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      squares += std::pow(static_cast<double>((*gradient)[i]), 2);
    }
  }
  const float factor = static_cast<float>(limit / std::sqrt(squares));
  if (factor >= 1) return;
  for (const ParameterRange& range : job.layout.trained()) {
    for (int64_t i = range.begin; i < range.end; ++i) (*gradient)[i] *= factor;
  }
}

// By the formula in model.h, with gradients of parts by themselves.
std::vector<float> SumOnTheHost(const ResolvedJob& job, Model* model,
                                const Work& work, float rate, double clip_norm,
                                std::vector<float> weights) {
  std::vector<float> sum(weights.size());
  for (const std::vector<Batch>& parts : work) {
    std::vector<float> step(weights.size());
    for (size_t j = 0; j < parts.size(); ++j) {
      const auto gradient = Gradient(model, parts[j], weights);
      const float share = ShareOf(parts, j);
      for (size_t i = 0; i < step.size(); ++i) {
        step[i] = std::fma(share, gradient[i], step[i]);
      }
    }
    if (clip_norm > 0) Clip(job, clip_norm, &step);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += step[i];
    for (const ParameterRange& range : job.layout.trained()) {
      for (int64_t i = range.begin; i < range.end; ++i) {
        weights[i] = std::fma(-rate, step[i], weights[i]);
      }
    }
  }
  for (const ParameterRange& range : job.layout.statistics()) {
    for (int64_t i = range.begin; i < range.end; ++i) {
      sum[i] *= 1 / static_cast<float>(work.size());
    }
  }
  return sum;
}

class ModelStepsTest : public kernels::CudaTest {};
SLUICE_CUDA_PRECISIONS_TEST_SUITE(ModelStepsTest);

TEST_P(ModelStepsTest, AGradientIsTheSumOfItsStepsAndOfTheirParts) {
  const ResolvedJob job = NetJob(precision());
  const auto model = Create(job, kSamples, device_.get());
  const auto weights = InitialWeights(job);
  for (const auto& samples : std::vector<std::vector<std::vector<int64_t>>>{
           {{4}, {4}, {4}}, {{4, 4, 1}}, {{3, 2}, {4}, {1, 1, 1}}}) {
    const Work work = MakeWork(job, samples);
    for (const double clip_norm : {0.0, 0.25, 100.0}) {
      EXPECT_EQ(Sum(model.get(), StepsOf(work, 0.5, clip_norm), weights),
                SumOnTheHost(job, model.get(), work, 0.5, clip_norm, weights));
    }
  }
}

TEST(ModelStepsOnHostTest, TheSumIsTheSameOnTheCpu) {
  const ResolvedJob job = NetJob();
  const auto device = Cpu();
  const auto model = Create(job, kSamples, device.get());
  const auto weights = InitialWeights(job);
  const Work work = MakeWork(job, {{3, 2}, {4}, {1, 1, 1}});
  for (const double clip_norm : {0.0, 0.25}) {
    EXPECT_EQ(Sum(model.get(), StepsOf(work, 0.5, clip_norm), weights),
              SumOnTheHost(job, model.get(), work, 0.5, clip_norm, weights));
  }
}

TEST(ModelStepsOnHostTest, WhatStepsMovedIsForgottenBehindThem) {
  const ResolvedJob job = NetJob();
  const auto device = Cpu();
  const auto model = Create(job, kSamples, device.get());
  const auto weights = InitialWeights(job);
  const Work work = MakeWork(job, {{4}, {4}});
  const auto gradient = Gradient(model.get(), work[0][0], weights);
  const auto loss = model->Evaluate(work[0][0], weights)->loss;
  Sum(model.get(), StepsOf(work, 0.5), weights);
  EXPECT_EQ(Gradient(model.get(), work[0][0], weights), gradient);
  EXPECT_EQ(model->Evaluate(work[0][0], weights)->loss, loss);
}

// The stages so far: pull, forward, backward.
std::string StagesUntil(const TaskProgress& progress) {
  std::string stages;
  for (const auto& span : progress.spans()) stages += StageName(span.stage)[0];
  return stages + StageName(progress.stage())[0];
}

TEST(ModelStepsOnHostTest, WhatTheLastPartMakesFinalIsReadyAtOnce) {
  const ResolvedJob job = NetJob();
  const auto device = Cpu();
  const auto model = Create(job, kSamples, device.get());
  const auto weights = InitialWeights(job);
  const Work work = MakeWork(job, {{3, 2}, {2, 1}});
  const auto& tensors = job.model.tensors;
  for (const bool clips : {false, true}) {
    const Model::Steps steps = StepsOf(work, 0.5, clips ? 0.25 : 0);
    const auto want = Sum(model.get(), steps, weights);
    std::vector<float> gradient(weights.size());
    std::vector<int64_t> froms;
    TaskProgress progress;
    const auto result =
        Watched(model.get(), steps, weights, absl::MakeSpan(gradient),
                CancelToken(), {[&](int64_t from) {
                  froms.push_back(from);
                  // Four passes have begun and the last has come to its
                  // backward.
                  EXPECT_EQ(StagesUntil(progress), "pbfbfbfb");
                  for (size_t i = from; i < want.size(); ++i) {
                    EXPECT_EQ(gradient[i], want[i]) << i;
                  }
                }},
                &progress);
    ASSERT_TRUE(result.ok()) << result.status();
    if (clips) {
      EXPECT_THAT(froms, ElementsAre(0));
    } else {
      EXPECT_THAT(froms, ElementsAre(tensors[6].offset, tensors[2].offset,
                                     tensors[0].offset));
    }
  }
}

// Counts the bytes that travel, and may have no memory left.
class CountingDevice : public SeparateMemoryDevice {
 public:
  absl::StatusOr<std::unique_ptr<kernels::Buffer>> Allocate(
      int64_t bytes) override {
    if (full) return absl::ResourceExhaustedError("full");
    return SeparateMemoryDevice::Allocate(bytes);
  }
  absl::StatusOr<std::unique_ptr<kernels::Upload>> PrepareUpload() override {
    return std::make_unique<CountingUpload>(
        this, *SeparateMemoryDevice::PrepareUpload());
  }
  absl::StatusOr<std::unique_ptr<kernels::Download>> PrepareDownload(
      int64_t bytes) override {
    return std::make_unique<CountingDownload>(
        this, *SeparateMemoryDevice::PrepareDownload(bytes));
  }

  bool full = false;
  int64_t uploaded = 0, downloaded = 0;

 private:
  class CountingUpload : public kernels::Upload {
   public:
    CountingUpload(CountingDevice* counts,
                   std::unique_ptr<kernels::Upload> upload)
        : counts_(*counts), upload_(std::move(upload)) {}
    absl::Status Begin() override { return upload_->Begin(); }
    absl::Status Send(const void* host, void* device, int64_t bytes) override {
      counts_.uploaded += bytes;
      return upload_->Send(host, device, bytes);
    }

   private:
    CountingDevice& counts_;
    const std::unique_ptr<kernels::Upload> upload_;
  };

  class CountingDownload : public kernels::Download {
   public:
    CountingDownload(CountingDevice* counts,
                     std::unique_ptr<kernels::Download> download)
        : counts_(*counts), download_(std::move(download)) {}
    absl::Status Begin(const void* device, void* host, int64_t bytes) override {
      counts_.downloaded += bytes;
      return download_->Begin(device, host, bytes);
    }
    absl::StatusOr<bool> Take(bool wait) override {
      return download_->Take(wait);
    }
    absl::Status Drop() override { return download_->Drop(); }

   private:
    CountingDevice& counts_;
    const std::unique_ptr<kernels::Download> download_;
  };
};

TEST(ModelStepsOnDeviceTest, WeightsAndTheSumTravelOnceHoweverManySteps) {
  const ResolvedJob job = NetJob();
  CountingDevice device;
  const auto model = Create(job, kSamples, &device);
  const auto reference = kernels::MakeReferenceDevice();
  const auto near = Create(job, kSamples, reference.get());
  const auto weights = InitialWeights(job);
  const Work work = MakeWork(job, {{3, 2}, {4}, {2, 1}});
  int64_t awaited = 0;
  const Watch watch = {.wait = [&](int64_t end) {
    EXPECT_GT(end, std::exchange(awaited, end));
    return end;
  }};
  const Model::Steps steps = StepsOf(work, 0.5, 0.25);
  EXPECT_EQ(Sum(model.get(), steps, weights, watch),
            Sum(near.get(), steps, weights));
  EXPECT_EQ(awaited, job.layout.size());
  const int64_t bytes = job.layout.size() * sizeof(float);
  constexpr int kInputs = 3 + 2 + 4 + 2 + 1;  // Of all parts, of 4 floats each.
  EXPECT_EQ(device.uploaded, bytes + kInputs * 4 * sizeof(float));
  EXPECT_EQ(device.downloaded, bytes);
}

TEST(ModelStepsOnDeviceTest, AnEvaluationTakesTheWeightsOnceForAllBatches) {
  const ResolvedJob job = NetJob();
  CountingDevice device;
  const auto model = Create(job, kSamples, &device);
  const auto weights = InitialWeights(job);
  const std::vector<Batch> batches = {
      MakeBatch(job, 4, 1), MakeBatch(job, 1, 2), MakeBatch(job, 3, 3)};
  double loss = 0;
  int64_t correct = 0;
  for (const Batch& batch : batches) {
    const auto one = model->Evaluate(batch, weights);
    ASSERT_TRUE(one.ok()) << one.status();
    loss += one->loss * static_cast<double>(batch.samples);
    correct += one->correct;
  }
  device.uploaded = 0;
  size_t i = 0;
  const auto all = model->Evaluate(
      [&] { return i < batches.size() ? &batches[i++] : nullptr; }, weights);
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->samples, 8);
  EXPECT_DOUBLE_EQ(all->loss, loss / 8);
  EXPECT_EQ(all->correct, correct);
  // And 8 inputs of 4 floats.
  EXPECT_EQ(device.uploaded, (job.layout.size() + 8 * 4) * sizeof(float));
}

TEST(ModelStepsOnDeviceTest, WithoutMemoryForASumAGradientByItselfIsComputed) {
  const ResolvedJob job = NetJob();
  CountingDevice device;
  const auto model = Create(job, kSamples, &device);
  const auto weights = InitialWeights(job);
  const Work work = MakeWork(job, {{4}, {4}});
  const auto gradient = Gradient(model.get(), work[0][0], weights);
  device.full = true;
  std::vector<float> sum(weights.size());
  EXPECT_TRUE(absl::IsResourceExhausted(
      Watched(model.get(), StepsOf(work, 0.5), weights, absl::MakeSpan(sum))
          .status()));
  EXPECT_EQ(Gradient(model.get(), work[0][0], weights), gradient);
}

TEST(ModelStepsOnDeviceTest, ACancelBetweenStepsEndsThem) {
  const ResolvedJob job = NetJob();
  CountingDevice device;
  const auto model = Create(job, kSamples, &device);
  const auto weights = InitialWeights(job);
  const Work work = MakeWork(job, {{4}, {4}, {4}});
  CancelToken cancel;
  Model::Steps steps = StepsOf(work, 0.5);
  int parts = 0;
  steps.next = [&, next = steps.next] {
    if (++parts == 2) cancel.Cancel();
    return next();
  };
  TaskProgress progress;
  std::vector<float> sum(weights.size());
  EXPECT_TRUE(absl::IsAborted(
      Watched(model.get(), steps, weights, absl::MakeSpan(sum), cancel,
              {[](int64_t) { FAIL() << "nothing can be ready"; }}, &progress)
          .status()));
  EXPECT_EQ(StagesUntil(progress), "pbf");
  EXPECT_EQ(device.downloaded, 0);
}

}  // namespace
}  // namespace sluice

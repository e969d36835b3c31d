// When a model reports, stops and refuses.
#include <cstring>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/reference/reference_device.h"
#include "worker/model/testing/model_testing.h"
#include "worker/model/testing/separate_memory_device.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

TEST(ModelFlowTest, ReadyRangesGrowFromTheEndToTheWholeGradient) {
  const ResolvedJob job = MakeJob(kLeNet, {1, 28, 28});
  const auto device = Cpu();
  const auto model = Create(job, 4, device.get());
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 4, 5);
  const auto want = Gradient(model.get(), batch, weights);

  std::vector<float> gradient(weights.size(), std::nanf(""));
  std::vector<int64_t> froms;
  const auto result = Watched(
      model.get(), batch, weights, absl::MakeSpan(gradient), CancelToken(),
      {[&](int64_t from) {
        froms.push_back(from);
        // What was announced is final.
        EXPECT_EQ(std::memcmp(gradient.data() + from, want.data() + from,
                              (want.size() - from) * sizeof(float)),
                  0);
      }});
  ASSERT_TRUE(result.ok());
  std::vector<int64_t> weights_begin;
  for (const LayerPlan& layer : job.model.layers) {
    if (layer.weight >= 0) {
      weights_begin.insert(weights_begin.begin(),
                           job.model.tensors[layer.weight].offset);
    }
  }
  EXPECT_EQ(froms, weights_begin);
  EXPECT_EQ(froms.back(), 0);
}

// The ends of the layers' parameters, which the flat vector has in order.
std::vector<int64_t> EndsOfParameters(const ResolvedJob& job) {
  std::vector<int64_t> ends;
  for (const LayerPlan& layer : job.model.layers) {
    if (layer.weight < 0) continue;
    const TensorSpec& last =
        job.model.tensors[layer.bias < 0 ? layer.weight : layer.bias];
    ends.push_back(last.offset + last.size);
  }
  return ends;
}

TEST(ModelFlowTest, ForwardAwaitsTheWeightsOfOneLayerAfterTheOther) {
  const ResolvedJob job = MakeJob(kLeNet, {1, 28, 28});
  const auto device = Cpu();
  const auto model = Create(job, 4, device.get());
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 4, 5);
  const auto want = Gradient(model.get(), batch, weights);

  // Weights that have not come are NaN.
  std::vector<float> come(weights.size(), std::nanf(""));
  std::vector<int64_t> awaited;
  TaskProgress progress;
  std::vector<float> gradient(weights.size());
  const auto result =
      Watched(model.get(), batch, come, absl::MakeSpan(gradient), CancelToken(),
              {.wait =
                   [&](int64_t end) {
                     EXPECT_NE(progress.stage(), Stage::kBackward);
                     awaited.push_back(end);
                     std::copy_n(weights.begin(), end, come.begin());
                     return end;
                   }},
              &progress);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(progress.stage(), Stage::kBackward);
  EXPECT_EQ(awaited, EndsOfParameters(job));
  EXPECT_TRUE(SameBits(gradient, want));
}

TEST(ModelFlowTest, WeightsThatDoNotComeEndThePass) {
  const ResolvedJob job = MakeJob(kLeNet, {1, 28, 28});
  const auto device = Cpu();
  const auto model = Create(job, 4, device.get());
  const auto weights = InitialWeights(job);
  std::vector<float> gradient(weights.size());
  const absl::Status lost = absl::UnavailableError("shard 1 is lost");
  const auto result = Watched(
      model.get(), MakeBatch(job, 4, 5), weights, absl::MakeSpan(gradient),
      CancelToken(),
      {.on_final = [](int64_t) { FAIL() << "nothing can be ready"; },
       .wait = [&](int64_t end) -> absl::StatusOr<OrRestarted<int64_t>> {
         if (end > 1000) return lost;
         return end;
       }});
  EXPECT_EQ(result.status(), lost);
}

TEST(ModelFlowTest, ACancelDuringBackwardStopsBeforeTheNextLayer) {
  const ResolvedJob job = MakeJob(kLeNet, {1, 28, 28});
  const auto device = Cpu();
  const auto model = Create(job, 4, device.get());
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 4, 5);
  std::vector<float> gradient(weights.size());
  CancelToken cancel;
  int calls = 0;
  const auto cancelled =
      Watched(model.get(), batch, weights, absl::MakeSpan(gradient), cancel,
              {[&](int64_t) {
                if (++calls == 2) cancel.Cancel();
              }});
  EXPECT_EQ(cancelled.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(calls, 2);
  // What was cut short leaves no trace.
  const auto fresh = Create(job, 4, device.get());
  EXPECT_TRUE(SameBits(Gradient(model.get(), batch, weights),
                       Gradient(fresh.get(), batch, weights)));
}

TEST(ModelFlowTest, ThePassWaitsForTheDeviceBeforeEachLayerAndSeesACancelThen) {
  const ResolvedJob job = MakeJob(
      "layer { dense { units: 3 } } layer { tanh {} }"
      "layer { dense { units: 2 } }",
      {4});
  SeparateMemoryDevice device;
  const auto model = Create(job, 4, &device, {.records = false});
  const auto weights = InitialWeights(job);
  std::vector<float> gradient(weights.size());
  // Before three layers, behind them, and before three again.
  for (int last = 1; last <= 8; ++last) {
    CancelToken cancel;
    int paces = 0;
    device.on_pace = [&] {
      if (++paces == last) cancel.Cancel();
    };
    const auto result = model->ComputeGradient(
        MakeBatch(job, 4, 5), weights, absl::MakeSpan(gradient), cancel);
    EXPECT_EQ(absl::IsAborted(result.status()), last < 8) << last;
    EXPECT_EQ(paces, std::min(last, 7));
  }
}

TEST(ModelFlowTest, ACancelledTaskComputesNothing) {
  const ResolvedJob job = MakeJob(kLeNet, {1, 28, 28});
  const auto device = Cpu();
  const auto model = Create(job, 2, device.get());
  const auto weights = InitialWeights(job);
  std::vector<float> gradient(weights.size(), 7);
  CancelToken cancel;
  cancel.Cancel();
  const auto result = Watched(
      model.get(), MakeBatch(job, 2, 5), weights, absl::MakeSpan(gradient),
      cancel, {[](int64_t) { FAIL() << "nothing can be ready"; }});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kAborted);
  EXPECT_EQ(gradient, std::vector<float>(weights.size(), 7));
}

TEST(ModelFlowTest, EvaluateReportsTheLossAndCountOfComputeGradient) {
  const ResolvedJob job = MakeJob(kLeNet, {1, 28, 28});
  const auto device = Cpu();
  const auto model = Create(job, 32, device.get());
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 32, 5);
  std::vector<float> gradient(weights.size());
  const auto computed = model->ComputeGradient(
      batch, weights, absl::MakeSpan(gradient), CancelToken());
  const auto evaluated = model->Evaluate(batch, weights);
  ASSERT_TRUE(computed.ok() && evaluated.ok());
  EXPECT_EQ(computed->loss, evaluated->loss);
  EXPECT_EQ(computed->correct, evaluated->correct);
}

TEST(ModelFlowTest, TrainingSeparatesTwoHalves) {
  const ResolvedJob job = MakeJob(
      "layer { dense { units: 8 } } layer { relu {} }"
      "layer { dense { units: 2 } }",
      {4});
  const auto device = Cpu();
  const auto model = Create(job, 64, device.get());
  Batch batch = MakeBatch(job, 64, 5);
  for (int n = 0; n < 64; ++n) {
    batch.labels[n] = batch.inputs[4 * n] + batch.inputs[4 * n + 1] > 0;
  }
  auto weights = InitialWeights(job);
  const double before = model->Evaluate(batch, weights)->loss;
  for (int step = 0; step < 300; ++step) {
    const auto gradient = Gradient(model.get(), batch, weights);
    for (size_t i = 0; i < weights.size(); ++i) weights[i] -= gradient[i];
  }
  const auto after = model->Evaluate(batch, weights);
  EXPECT_LT(after->loss, before / 5);
  EXPECT_GE(after->correct, 62);
}

TEST(ModelFlowTest, ADeviceWithItsOwnMemoryGivesTheSameGradient) {
  const ResolvedJob job = MakeJob(
      "layer { dense { units: 6 } } layer { relu {} }"
      "layer { dense { units: 3 } }",
      {5});
  const auto reference = kernels::MakeReferenceDevice();
  SeparateMemoryDevice separate;
  const auto near = Create(job, 4, reference.get());
  const auto far = Create(job, 4, &separate);
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 3, 5);
  const auto want = Gradient(near.get(), batch, weights);
  std::vector<float> gradient(weights.size(), std::nanf(""));
  const auto result =
      Watched(far.get(), batch, weights, absl::MakeSpan(gradient),
              CancelToken(), {[&](int64_t from) {
                // What was announced is already in the host's
                // memory.
                EXPECT_EQ(gradient[from], want[from]);
                EXPECT_EQ(gradient.back(), want.back());
              }});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_TRUE(SameBits(gradient, want));
}

TEST(ModelFlowTest, ALabelOutsideTheModelsOutputsIsRefused) {
  const ResolvedJob job = MakeJob(kLeNet, {1, 28, 28});
  const auto device = Cpu();
  const auto model = Create(job, 3, device.get());
  Batch batch = MakeBatch(job, 3, 5);
  batch.labels[1] = 10;
  const auto result = model->Evaluate(batch, InitialWeights(job));
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(result.status().message()),
              HasSubstr("sample 1 of the batch has label 10, expected 0 to 9"));
}

TEST(ModelFlowTest, ALossThatDoesNotFitTheDataIsRefused) {
  const auto device = Cpu();
  ResolvedJob job = MakeJob("layer { dense { units: 1 } }", {3});
  job.data.classification = false;
  EXPECT_THAT(
      std::string(Model::Create(job, 1, device.get()).status().message()),
      HasSubstr("SOFTMAX_CROSS_ENTROPY needs labels"));
  job.job.mutable_model()->set_loss(proto::Model::MEAN_SQUARED_ERROR);
  job.data.classification = true;
  EXPECT_THAT(
      std::string(Model::Create(job, 1, device.get()).status().message()),
      HasSubstr("MEAN_SQUARED_ERROR needs real targets"));
}

}  // namespace
}  // namespace sluice

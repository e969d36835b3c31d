// Models whose passes are recorded and run again: on the machine's GPU where
// there is one, and on the emulated CUDA device.
#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "common/clock.h"
#include "common/ids.h"
#include "gtest/gtest.h"
#include "kernels/cuda/testing/cuda_testing.h"
#include "worker/model/testing/model_testing.h"
#include "worker/model/testing/separate_memory_device.h"

namespace sluice {
namespace {

using kernels::NameOfSetting;
using kernels::Precision;
using kernels::SettingsIn;

constexpr char kMixed[] = R"(
  layer { conv2d { channels: 3 kernel: 3 padding: 1 } }
  layer { batch_norm {} }
  layer { tanh {} }
  layer { residual {
    layer { conv2d { channels: 3 kernel: 3 padding: 1 bias: false } }
    layer { batch_norm {} }
    layer { dropout { rate: 0.25 } }
  } }
  layer { residual { layer { conv2d { channels: 2 kernel: 1 stride: 2 } } } }
  layer { flatten {} }
  layer { dense { units: 5 } }
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
    layer { dropout { rate: 0.1 } }
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

constexpr char kTwoLayers[] =
    "layer { dense { units: 6 } } layer { tanh {} }"
    "layer { dense { units: 3 } }";

// Every layer takes 0.7 ms by it, so two of them are a segment.
class TickingClock : public Clock {
 public:
  absl::Time Now() override { return now_ += absl::Microseconds(700); }

 private:
  absl::Time now_ = absl::UnixEpoch();
};

// Counts what is recorded and run again, and may refuse some of it.
class WatchedDevice : public SeparateMemoryDevice {
 public:
  using SeparateMemoryDevice::SeparateMemoryDevice;

  absl::StatusOr<std::unique_ptr<kernels::Recording>> Record(
      absl::FunctionRef<absl::Status()> calls) override {
    if (refuse(asked++)) return absl::InternalError("refused");
    auto recording = SeparateMemoryDevice::Record(calls);
    EXPECT_TRUE(recording.ok()) << recording.status();
    if (!recording.ok()) return recording.status();
    return std::make_unique<Watched>(&runs, *std::move(recording));
  }
  // Recorded calls are made later, so nothing looks at their arguments.
  absl::StatusOr<kernels::AnyOp> PrepareAny(const kernels::OpSpec& spec,
                                            int64_t max_samples) override {
    return device().PrepareAny(spec, max_samples);
  }

  std::function<bool(int)> refuse = [](int) { return false; };
  int asked = 0;  // Calls of Record.
  int runs = 0;   // Of recordings.

 private:
  class Watched : public kernels::Recording {
   public:
    Watched(int* runs, std::unique_ptr<kernels::Recording> recording)
        : runs_(*runs), recording_(std::move(recording)) {}
    absl::Status Run() override {
      ++runs_;
      return recording_->Run();
    }

   private:
    int& runs_;
    const std::unique_ptr<kernels::Recording> recording_;
  };
};

class RecordedModelTest : public kernels::CudaTest {
 protected:
  void SetUp() override {
    kernels::CudaTest::SetUp();
    if (device_ == nullptr) return;
    watched_ = std::make_unique<WatchedDevice>(std::move(device_));
  }
  std::unique_ptr<Model> Recorded(const ResolvedJob& job, int samples) {
    return Create(job, samples, watched_.get(),
                  {.clock = &clock_, .on_refused = [this](const auto& why) {
                     EXPECT_EQ(why, absl::InternalError("refused"));
                     ++told_;
                   }});
  }
  std::unique_ptr<Model> Unrecorded(const ResolvedJob& job, int samples) {
    return Create(job, samples, watched_.get(), {.records = false});
  }
  // Of kMixed, there and back: two of its eight layers each; its flatten is a
  // ninth where it moves numbers.
  int SegmentsOfMixed() const {
    return 2 * (kernels::Is16Bit(precision()) ? 5 : 4);
  }

  TickingClock clock_;
  std::unique_ptr<WatchedDevice> watched_;
  int told_ = 0;  // That it was refused.
};
SLUICE_CUDA_TEST_SUITE(RecordedModelTest);

struct Step {
  uint64_t batch;
  int64_t samples;
  int64_t first = 0;  // In the mini-batch.
};

// Losses and gradients of a training, one behind the other.
std::vector<float> Train(const ResolvedJob& job, Model* model,
                         const std::vector<Step>& steps) {
  std::vector<float> weights = InitialWeights(job), results;
  for (const Step& step : steps) {
    Batch batch = MakeBatch(job, step.samples, 10 * step.batch + step.first);
    batch.id = BatchId(step.batch);
    batch.first = step.first;
    std::vector<float> gradient(weights.size(), std::nanf(""));
    const auto result = model->ComputeGradient(
        batch, weights, absl::MakeSpan(gradient), CancelToken());
    EXPECT_TRUE(result.ok()) << result.status();
    results.push_back(static_cast<float>(result->loss));
    results.insert(results.end(), gradient.begin(), gradient.end());
    for (size_t i = 0; i < weights.size(); ++i) weights[i] -= gradient[i] / 16;
    if (step.batch % 3 > 0) continue;
    const auto evaluated = model->Evaluate(batch, weights);
    EXPECT_TRUE(evaluated.ok()) << evaluated.status();
    results.push_back(static_cast<float>(evaluated->loss));
  }
  return results;
}

TEST_P(RecordedModelTest, TrainingGivesTheBitsThatItGivesUnrecorded) {
  for (const auto& [net, shape] :
       {std::pair{kMixed, std::vector<int64_t>{2, 4, 4}},
        std::pair{kSmallResNet, std::vector<int64_t>{2, 4, 4}},
        std::pair{kTransformer, std::vector<int64_t>{5}}}) {
    const ResolvedJob job = MakeJob(net, shape);
    // Mini-batches of 4, 3 and 6, the last in micro-batches.
    const std::vector<Step> steps = {{1, 4}, {2, 4},   {3, 4},    {4, 3},
                                     {5, 4}, {6, 4},   {6, 2, 4}, {7, 4},
                                     {8, 4}, {8, 4, 4}};
    watched_->runs = 0;
    const auto recorded = Train(job, Recorded(job, 4).get(), steps);
    // From the third full one on.
    EXPECT_GE(watched_->runs, 6 * 4);
    EXPECT_TRUE(
        SameBits(recorded, Train(job, Unrecorded(job, 4).get(), steps)));
  }
}

TEST_P(RecordedModelTest, TheThirdFullMiniBatchIsRecordedInSegments) {
  const ResolvedJob job = MakeJob(kTwoLayers, {5});
  const auto model = Recorded(job, 4);
  std::vector<std::pair<int, int>> seen;  // Asked for, and run, until then.
  for (const int64_t samples : {4, 3, 4, 1, 4, 2, 4}) {
    Train(job, model.get(), {{3, samples}});  // And evaluate.
    seen.emplace_back(watched_->asked, watched_->runs);
  }
  // Two layers and one, there and back.
  EXPECT_EQ(seen, (std::vector<std::pair<int, int>>{
                      {0, 0}, {0, 0}, {0, 0}, {0, 0}, {4, 4}, {4, 4}, {4, 8}}));
}

TEST_P(RecordedModelTest, LocalStepsRunWhatTheFirstOfThemRecorded) {
  const ResolvedJob job = MakeJob(kMixed, {2, 4, 4});
  const auto weights = InitialWeights(job);
  std::vector<Batch> batches;
  for (int i = 0; i < 6; ++i) {
    batches.push_back(MakeBatch(job, 4, i));
    batches.back().id = BatchId(i);
  }
  size_t next = 0;
  const Model::Steps steps = {.count = 6, .rate = 0.25, .next = [&] {
                                return Model::Part{&batches[next++ % 6]};
                              }};
  const auto sum = [&](Model* model) {
    std::vector<float> gradient(weights.size(), std::nanf(""));
    const auto result =
        Watched(model, steps, weights, absl::MakeSpan(gradient), CancelToken());
    EXPECT_TRUE(result.ok()) << result.status();
    return gradient;
  };
  const auto model = Recorded(job, 4);
  const auto recorded = sum(model.get());
  EXPECT_EQ(watched_->runs, 4 * SegmentsOfMixed());
  EXPECT_TRUE(SameBits(recorded, sum(Unrecorded(job, 4).get())));
  EXPECT_TRUE(SameBits(recorded, sum(model.get())));
  EXPECT_EQ(watched_->runs, 10 * SegmentsOfMixed());
}

TEST_P(RecordedModelTest, AModelThatIsNotToRecordAsksForNothing) {
  const ResolvedJob job = MakeJob(kTwoLayers, {5});
  Train(job, Unrecorded(job, 4).get(), {{1, 4}, {2, 4}, {3, 4}, {4, 4}});
  EXPECT_EQ(watched_->asked, 0);
}

TEST_P(RecordedModelTest, WhatIsRefusedRunsLayerByLayerForGood) {
  const ResolvedJob job = MakeJob(kMixed, {2, 4, 4});
  const std::vector<Step> steps = {{1, 4}, {2, 4}, {3, 4}, {4, 4}, {5, 4}};
  const auto want = Train(job, Unrecorded(job, 4).get(), steps);
  for (const int every : {1, 2}) {
    watched_->refuse = [&](int call) { return call % every == 0; };
    watched_->asked = watched_->runs = told_ = 0;
    EXPECT_TRUE(SameBits(Train(job, Recorded(job, 4).get(), steps), want));
    const int segments = SegmentsOfMixed();
    // Of two, those that the first pass has are asked for again by the second,
    // on the other buffer of inputs, and every other one is refused again.
    const int again = every == 1 ? 0 : segments / 2;
    EXPECT_EQ(watched_->asked, segments + again);
    EXPECT_EQ(told_, segments / every + again / 2);
    EXPECT_EQ(watched_->runs, 2 * again + again / 2);
  }
}

TEST_P(RecordedModelTest, ACancelStopsBeforeTheNextSegment) {
  const ResolvedJob job = MakeJob(kMixed, {2, 4, 4});
  const auto model = Recorded(job, 4);
  Train(job, model.get(), {{1, 4}, {2, 4}, {3, 4}});
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 4, 5);
  const auto want = Gradient(Unrecorded(job, 4).get(), batch, weights);
  const int segments = SegmentsOfMixed();
  // Before each of them, and after the last.
  for (int last = 1; last <= segments + 1; ++last) {
    CancelToken cancel;
    int paces = 0;
    watched_->on_pace = [&] {
      if (++paces == last) cancel.Cancel();
    };
    watched_->runs = 0;
    std::vector<float> gradient(weights.size());
    const auto result = model->ComputeGradient(
        batch, weights, absl::MakeSpan(gradient), cancel);
    EXPECT_EQ(absl::IsAborted(result.status()), last <= segments) << last;
    EXPECT_EQ(watched_->runs, std::min(last - 1, segments));
    EXPECT_TRUE(SameBits(Gradient(model.get(), batch, weights), want)) << last;
  }
}

TEST_P(RecordedModelTest, ACancelBeforeAllIsRecordedLeavesNoTrace) {
  const ResolvedJob job = MakeJob(kMixed, {2, 4, 4});
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 4, 5);
  const auto want = Gradient(Unrecorded(job, 4).get(), batch, weights);
  for (const int last : {3, 8, 15}) {
    const auto model = Recorded(job, 4);
    for (int step = 0; step < 5; ++step) {
      CancelToken cancel;
      int paces = 0;
      watched_->on_pace = [&] {
        if (++paces == last) cancel.Cancel();
      };
      std::vector<float> gradient(weights.size());
      (void)model->ComputeGradient(batch, weights, absl::MakeSpan(gradient),
                                   cancel);
      EXPECT_TRUE(SameBits(Gradient(model.get(), batch, weights), want));
    }
    watched_->on_pace = [] {};
  }
}

TEST_P(RecordedModelTest, WhatASegmentFinishedIsAnnouncedBehindIt) {
  // Two copies' worth of weights (see gradient_array.h), and a few behind them.
  const ResolvedJob job = MakeJob(
      "layer { dense { units: 400 } } layer { relu {} }"
      "layer { dense { units: 700 } } layer { relu {} }"
      "layer { dense { units: 3 } }",
      {700});
  const auto model = Recorded(job, 2);
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 2, 5);
  const auto want = Gradient(Unrecorded(job, 2).get(), batch, weights);
  for (int step = 0; step < 4; ++step) {
    std::vector<float> gradient(weights.size(), std::nanf(""));
    std::vector<int64_t> froms;
    const auto result = Watched(
        model.get(), batch, weights, absl::MakeSpan(gradient), CancelToken(),
        {.on_final = [&](int64_t from) {
          froms.push_back(from);
          EXPECT_EQ(std::memcmp(gradient.data() + from, want.data() + from,
                                (want.size() - from) * sizeof(float)),
                    0);
        }});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(froms, (std::vector<int64_t>{job.model.tensors[2].offset, 0}));
  }
}

TEST_P(RecordedModelTest, ASegmentWaitsForTheWeightsOfItsLayers) {
  const ResolvedJob job = MakeJob(
      "layer { dense { units: 6 } } layer { tanh {} }"
      "layer { residual { layer { dense { units: 6 } } layer { tanh {} } } }"
      "layer { dense { units: 5 } } layer { dense { units: 3 } }",
      {5});
  const auto& tensors = job.model.tensors;
  const auto weights = InitialWeights(job);
  const Batch batch = MakeBatch(job, 4, 5);
  const auto want = Gradient(Unrecorded(job, 4).get(), batch, weights);
  const auto model = Recorded(job, 4);
  std::vector<int64_t> awaited;
  for (int pass = 0; pass < 4; ++pass) {
    awaited.clear();
    std::vector<float> come(weights.size(), std::nanf(""));
    std::vector<float> gradient(weights.size());
    const auto result = Watched(
        model.get(), batch, come, absl::MakeSpan(gradient), CancelToken(),
        {.wait = [&](int64_t end) -> absl::StatusOr<OrRestarted<int64_t>> {
          awaited.push_back(end);
          std::copy_n(weights.begin(), end, come.begin());
          return end;
        }});
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_TRUE(SameBits(gradient, want));
  }
  // A dense layer and its activation, a residual and a dense layer, the last.
  EXPECT_EQ(awaited, (std::vector<int64_t>{tensors[2].offset, tensors[6].offset,
                                           job.layout.size()}));
}

TEST_P(RecordedModelTest, AnotherModelOfTheDeviceDoesNotDisturb) {
  const ResolvedJob job = MakeJob(kMixed, {2, 4, 4});
  // It needs more scratch memory.
  const ResolvedJob large = MakeJob(kMixed, {2, 9, 9});
  const std::vector<Step> steps = {{1, 4}, {2, 4}, {3, 4}, {4, 4}};
  const auto want = Train(job, Unrecorded(job, 4).get(), steps);
  const auto model = Recorded(job, 4);
  EXPECT_TRUE(SameBits(Train(job, model.get(), steps), want));
  Train(large, Recorded(large, 9).get(), {{1, 9}});
  EXPECT_TRUE(SameBits(Train(job, model.get(), steps), want));
}

}  // namespace
}  // namespace sluice

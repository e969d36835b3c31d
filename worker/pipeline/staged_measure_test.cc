#include "worker/pipeline/staged_measure.h"

#include <fstream>
#include <string>
#include <vector>

#include "common/job/initial_weights.h"
#include "common/job/stage_plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/compute/compute_context.h"
#include "worker/model/testing/separate_memory_device.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

constexpr char kConvolutions[] = R"(
  data { synthetic_images { channels: 3 height: 8 width: 8 classes: 10
         train_samples: 64 test_samples: 70 } batch_size: 16 }
  model {
    layer { conv2d { channels: 8 kernel: 3 padding: 1 bias: false } }
    layer { batch_norm {} } layer { relu {} } layer { flatten {} }
    layer { dropout { rate: 0.5 } }
    layer { dense { units: 16 } } layer { relu {} }
    layer { dense { units: 10 } }
  })";

std::string Text(const std::string& path) {
  std::ofstream(path) << std::string(500, 'a') << std::string(1500, 'b')
                      << std::string(400, 'c');
  return "data { text { train: \"" + path + "\" test: \"" + path +
         "\" length: 16 } batch_size: 8 } model { "
         "layer { embedding { features: 8 } } "
         "layer { residual { layer { layer_norm {} } "
         "layer { dense { units: 8 } } } } "
         "layer { layer_norm {} } layer { tied_output {} } }";
}

ResolvedJob Job(const std::string& text, int stages) {
  const auto job = ParseJob(
      text + " evaluation { batch_size: 16 } stop { updates: 1 }", "test",
      {"worker.group.pipeline_stages=" + std::to_string(stages)});
  EXPECT_TRUE(job.ok()) << job.status();
  return *job;
}

std::vector<float> Weights(const ResolvedJob& job) {
  auto weights = InitialWeights::Open(job)->Read({0, job.layout.size()});
  EXPECT_TRUE(weights.ok()) << weights.status();
  // Running statistics and biases that are not all the same.
  for (size_t i = 0; i < weights->size(); ++i) {
    (*weights)[i] += 0.001F * static_cast<float>(i % 7);
  }
  return *weights;
}

// Measures `weights`, of which each part is brought when it is asked for.
// `loads` becomes which were.
Measurement MeasureBy(const ComputeContext& context, const ResolvedJob& job,
                      const std::vector<float>& weights,
                      std::vector<int>* loads) {
  context.Enter();
  VersionMeasure& measure = *context.measure;
  const std::vector<ModelStage> stages = StagesOf(job);
  const auto load = [&](int part) {
    loads->push_back(part);
    const int64_t from =
        measure.parts() == 1 ? 0 : stages[part].parameters.begin;
    const absl::Span<float> into = measure.Weights(part);
    std::copy_n(weights.begin() + from, into.size(), into.begin());
    return absl::OkStatus();
  };
  if (measure.parts() == 1) load(0).IgnoreError();
  const auto measured = measure.Measure(Version(1), load, CancelToken());
  EXPECT_TRUE(measured.ok()) << measured.status();
  return *measured;
}

TEST(StagedMeasureTest, ItHasTheBitsOfTheWholeModel) {
  for (const std::string& text :
       {std::string(kConvolutions), Text(::testing::TempDir() + "/text")}) {
    for (const int stages : {2, 3}) {
      const ResolvedJob whole = Job(text, 1);
      const ResolvedJob job = Job(text, stages);
      const std::vector<float> weights = Weights(whole);
      std::vector<int> loads;
      const Measurement expected =
          MeasureBy(*MakeTestContext(whole), whole, weights, &loads);
      loads.clear();
      const auto context = MakeStagedTestContext(job);
      ASSERT_TRUE(context.ok()) << context.status();
      ASSERT_EQ(context->measure->parts(), stages);
      const Measurement measured = MeasureBy(*context, job, weights, &loads);
      EXPECT_EQ(measured.samples, expected.samples);
      EXPECT_EQ(measured.loss, expected.loss) << stages << text;
      EXPECT_EQ(measured.accuracy, expected.accuracy);
      EXPECT_EQ(loads.size(), stages);  // All samples are one block.
    }
  }
}

// Of which each reading is counted, and samples 0 and 1 are damaged.
class CountedSource final : public DataSource {
 public:
  explicit CountedSource(const DataSource* source) : source_(*source) {}
  int64_t size() const override { return source_.size(); }
  absl::Status Gather(absl::Span<const int64_t> indices,
                      Batch* batch) const override {
    samples_ += static_cast<int64_t>(indices.size());
    for (const int64_t i : indices) damaged_ += i < 2 ? 1 : 0;
    return source_.Gather(indices, batch);
  }
  int64_t damaged() const override { return damaged_; }
  int64_t samples() const { return samples_; }

 private:
  const DataSource& source_;
  mutable int64_t samples_ = 0, damaged_ = 0;
};

// Decoding them costs more than a small stage does.
TEST(StagedMeasureTest, SamplesAreReadForTheFirstStageAlone) {
  const ResolvedJob job = Job(kConvolutions, 3);
  const auto context = MakeTestContext(Job(kConvolutions, 1));
  const CountedSource test(context->data.get());
  for (const int64_t block_bytes : {1, 1 << 20}) {
    auto staged =
        StagedMeasure::Create(job, &test, context->device.get(), block_bytes);
    ASSERT_TRUE(staged.ok()) << staged.status();
    ComputeContext by_stages;
    by_stages.measure = *std::move(staged);
    const int64_t before = test.samples();
    std::vector<int> loads;
    MeasureBy(by_stages, job, Weights(job), &loads);
    EXPECT_EQ(test.samples() - before, test.size());
  }
}

TEST(StagedMeasureTest, AResultSaysHowManyOfItsSamplesWereDamaged) {
  const ResolvedJob job = Job(kConvolutions, 2);
  const auto context = MakeTestContext(Job(kConvolutions, 1));
  const CountedSource test(context->data.get());
  auto staged = StagedMeasure::Create(job, &test, context->device.get());
  ASSERT_TRUE(staged.ok()) << staged.status();
  ComputeContext by_stages;
  by_stages.measure = *std::move(staged);
  for (int i = 0; i < 2; ++i) {
    std::vector<int> loads;
    EXPECT_THAT(MeasureBy(by_stages, job, Weights(job), &loads).logged,
                ElementsAre(Pair("damaged_samples", 2)));
  }
}

// Of blocks of one batch, and a measurement that is cut short and made anew.
TEST(StagedMeasureTest, BlocksFollowEachOther) {
  const ResolvedJob job = Job(kConvolutions, 2);
  const std::vector<float> weights = Weights(job);
  const auto context = MakeTestContext(Job(kConvolutions, 1));
  std::vector<int> loads;
  const Measurement expected =
      MeasureBy(*context, Job(kConvolutions, 1), weights, &loads);
  auto staged = StagedMeasure::Create(job, context->data.get(),
                                      context->device.get(), /*block_bytes=*/1);
  ASSERT_TRUE(staged.ok()) << staged.status();
  ComputeContext by_stages;
  by_stages.measure = *std::move(staged);
  CancelToken cancel;
  int left = 3;
  const auto stop = [&](int) {
    if (--left == 0) cancel.Cancel();
    return absl::OkStatus();
  };
  EXPECT_EQ(
      by_stages.measure->Measure(Version(1), stop, cancel).status().code(),
      absl::StatusCode::kAborted);
  loads.clear();
  const Measurement measured = MeasureBy(by_stages, job, weights, &loads);
  EXPECT_EQ(measured.loss, expected.loss);
  EXPECT_THAT(loads, ElementsAre(0, 1, 0, 1, 0, 1, 0, 1, 0, 1));
}

TEST(StagedMeasureTest, ADeviceWithMemoryOfItsOwnHoldsOneStagesWeights) {
  const std::string text =
      std::string(kConvolutions) + " worker { device: REFERENCE }";
  const ResolvedJob whole = Job(text, 1);
  const ResolvedJob job = Job(text, 3);
  const std::vector<float> weights = Weights(whole);
  const auto context = MakeTestContext(whole);
  std::vector<int> loads;
  const Measurement expected = MeasureBy(*context, whole, weights, &loads);
  SeparateMemoryDevice device;  // The reference as well.
  auto staged = StagedMeasure::Create(job, context->data.get(), &device);
  ASSERT_TRUE(staged.ok()) << staged.status();
  ComputeContext by_stages;
  by_stages.measure = *std::move(staged);
  const Measurement measured = MeasureBy(by_stages, job, weights, &loads);
  EXPECT_EQ(measured.loss, expected.loss);
  EXPECT_EQ(measured.accuracy, expected.accuracy);
}

}  // namespace
}  // namespace sluice

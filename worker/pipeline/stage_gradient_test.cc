#include "worker/pipeline/stage_gradient.h"

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/model/testing/model_testing.h"
#include "worker/pipeline/slot_gradient.h"
#include "worker/testing/fakes.h"

namespace sluice {
namespace {

// Ten samples, two mini-batches, and a group of one stage.
TEST(StageGradientTest, BetweenTasksTheLikelyNextSamplesAreRead) {
  const ResolvedJob job = MakeJob("layer { dense { units: 3 } }", {1});
  const auto device = Cpu();
  const StageModel::Place alone = {.stage = 0, .stages = 1};
  auto created = StageModel::Create(job, alone, 5, device.get());
  ASSERT_TRUE(created.ok()) << created.status();
  StageModel* const stage = created->get();
  const auto model = Model::On(device.get(), job.layout, *std::move(created));
  ASSERT_TRUE(model.ok()) << model.status();
  const FakeDataSource samples(10);
  NativeGradient::Options native;
  native.sampling = {.train_samples = 10, .batch_size = 5};
  native.parameters = job.layout.size();
  native.inputs = 1;
  Turns turns;
  SlotTurn turn(&turns);
  SlotGradient gradient(
      std::make_unique<StageGradient>(
          StageGradient::Options{
              .native = native, .place = alone, .wake = [] {}},
          &samples, stage, model->get()),
      &turn);

  const std::vector<float> weights = InitialWeights(job);
  std::vector<float> computed(weights.size());
  for (int64_t task = 0; task < 2; ++task) {
    WeightsInPlace from(weights);
    GradientInPlace into(absl::MakeSpan(computed));
    TaskProgress progress;
    CancelToken token;
    const auto result = gradient.Compute({.first = BatchId(task)}, from, into,
                                         token, &progress);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(samples.gathered, task + 1);
  }
  gradient.PrepareNext();  // The guess of the second was right.
  EXPECT_EQ(samples.gathered, 3);
}

}  // namespace
}  // namespace sluice

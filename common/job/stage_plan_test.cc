#include "common/job/stage_plan.h"

#include <string>
#include <vector>

#include "common/layers/multiply_adds.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

ModelPlan Plan(const std::string& layers, const std::vector<int64_t>& input) {
  proto::Model model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(layers, &model));
  auto plan = PlanModel(model, input);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

std::vector<std::string> Cuts(const ModelPlan& plan, int stages,
                              std::vector<std::string>* violations) {
  proto::Group group;
  group.set_pipeline_stages(stages);
  ResolveCuts(plan, &group, violations);
  return {group.cuts().begin(), group.cuts().end()};
}

// Multiply-adds 8, 64, 80, 10, 100 and 10; the tanh's are its outputs.
constexpr char kMlp[] = R"(
  layer { dense { units: 8 } }
  layer { dense { units: 8 } }
  layer { dense { units: 10 } }
  layer { tanh {} }
  layer { dense { units: 10 } }
  layer { dense { units: 1 } }
)";

TEST(StagePlanTest, TheLargestStageIsAsSmallAsCanBe) {
  const ModelPlan plan = Plan(kMlp, {1});
  std::vector<std::string> violations;
  // 152 beside 120: one layer further would be 162 beside 110.
  EXPECT_THAT(Cuts(plan, 2, &violations), ElementsAre("tanh3"));
  // 72, 90, 110.
  EXPECT_THAT(Cuts(plan, 3, &violations), ElementsAre("dense2", "dense4"));
  EXPECT_THAT(Cuts(plan, 5, &violations),
              ElementsAre("dense1", "dense2", "dense4", "dense5"));
  EXPECT_THAT(violations, IsEmpty());
  Cuts(plan, 6, &violations);
  EXPECT_THAT(
      violations,
      ElementsAre("worker.group.pipeline_stages: must be 1 to 5 (layers with "
                  "weights that can be apart), is 6"));
}

TEST(StagePlanTest, NoStageIsWithoutWeights) {
  const ModelPlan plan = Plan(R"(
    layer { conv2d { channels: 4 kernel: 3 padding: 1 } }
    layer { max_pool { kernel: 2 } }
    layer { flatten {} }
    layer { dense { units: 3 } }
    layer { tanh {} }
    layer { tanh {} }
  )",
                              {1, 8, 8});
  std::vector<std::string> violations;
  EXPECT_EQ(Cuts(plan, 2, &violations).size(), 1);
  EXPECT_THAT(violations, IsEmpty());
  proto::Group group;
  group.set_pipeline_stages(2);
  group.add_cuts("tanh4");
  ResolveCuts(plan, &group, &violations);
  EXPECT_THAT(violations,
              ElementsAre("worker.group.cuts: stage 1, from tanh4 to tanh5, "
                          "has no weights, expected each stage to have some"));
}

TEST(StagePlanTest, MultiplyAddsOfEachKind) {
  const ModelPlan images = Plan(R"(
    layer { conv2d { channels: 4 kernel: 3 padding: 1 } }
    layer { residual { layer { conv2d { channels: 4 kernel: 1 } } } }
    layer { flatten {} }
    layer { dense { units: 3 } }
  )",
                                {2, 5, 5});
  const auto of = [](const ModelPlan& plan, size_t layer) {
    return MultiplyAdds(plan, plan.layers[layer]);
  };
  EXPECT_EQ(of(images, 0), 25 * 4 * 2 * 9);
  EXPECT_EQ(of(images, 1), 25 * 4 * 4 + 100);
  EXPECT_EQ(of(images, 3), 100 * 3);
  const ModelPlan text = Plan(R"(
    layer { embedding { vocabulary: 256 features: 6 } }
    layer { dense { units: 18 } }
    layer { attention { heads: 2 } }
    layer { tied_output {} }
  )",
                              {5});
  EXPECT_EQ(of(text, 1), 5 * 6 * 18);
  EXPECT_EQ(of(text, 2), 2 * 5 * 5 * 6);
  EXPECT_EQ(of(text, 3), 5 * 6 * 256);
}

TEST(StagePlanTest, AStagesJobHasItsLayersAndTensorsAlone) {
  const auto job = ParseJob(R"(
    data { linear_regression { features: 3 train_samples: 64 } batch_size: 8 }
    model { loss: MEAN_SQUARED_ERROR
      layer { dense { units: 4 } }
      layer { batch_norm {} }
      layer { dense { units: 5 } }
      layer { dense { units: 1 } } }
    worker { group { pipeline_stages: 2 cuts: "dense2" } }
    cluster { shards: 2 }
    stop { epochs: 1 }
  )",
                            "job", {});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_THAT(MemberCuts(*job), ElementsAre(32));  // 12 + 4 + 4 * 4.
  const ResolvedJob stage = JobOfStage(*job, 1);
  EXPECT_EQ(stage.layout.size(), 25 + 6);
  EXPECT_EQ(stage.model.input_shape, std::vector<int64_t>{4});
  ASSERT_EQ(stage.model.layers.size(), 2);
  const LayerPlan& first = stage.model.layers[0];
  EXPECT_EQ(first.name, "dense2");
  EXPECT_EQ(stage.model.tensors[first.weight].offset, 0);
  EXPECT_EQ(stage.model.tensors[first.bias].offset, 20);
  EXPECT_EQ(stage.layout.tensors()[0].name, "dense2.weight");
  EXPECT_EQ(stage.fingerprint, job->fingerprint);
  // Its statistics are the other's.
  EXPECT_THAT(stage.layout.statistics(), IsEmpty());
  EXPECT_EQ(JobOfStage(*job, 0).layout.statistics().size(), 1);
}

TEST(StagePlanTest, ChosenCutsAreWrittenIntoTheJobAndChangeNoBit) {
  const std::string text = R"(
    data { linear_regression { features: 3 train_samples: 64 } batch_size: 8 }
    model { loss: MEAN_SQUARED_ERROR
      layer { dense { units: 4 } } layer { dense { units: 1 } } }
    stop { epochs: 1 }
  )";
  const auto split = ParseJob(text, "job", {"worker.group.pipeline_stages=2"});
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_THAT(split->job.worker().group().cuts(), ElementsAre("dense1"));
  const auto whole = ParseJob(text, "job", {});
  ASSERT_TRUE(whole.ok()) << whole.status();
  // A run may be resumed with others.
  EXPECT_EQ(
      DescribeDifferenceToResume(FormatJob(split->job), FormatJob(whole->job)),
      "");
}

}  // namespace
}  // namespace sluice

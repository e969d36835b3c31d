#include "common/layers/model_plan.h"

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<ModelPlan> Plan(const std::string& text,
                               const std::vector<int64_t>& input) {
  proto::Model model;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &model));
  return PlanModel(model, input);
}

std::string ErrorOf(const std::string& text,
                    const std::vector<int64_t>& input) {
  const auto plan = Plan(text, input);
  if (plan.ok()) return "no error";
  EXPECT_EQ(plan.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(plan.status().message());
}

constexpr char kLeNet[] = R"(
  layer { conv2d { channels: 6 kernel: 5 padding: 2 } }
  layer { relu {} }
  layer { max_pool { kernel: 2 } }
  layer { name: "second" conv2d { channels: 16 kernel: 5 } }
  layer { tanh {} }
  layer { average_pool { kernel: 2 } }
  layer { flatten {} }
  layer { dense { units: 120 bias: false } }
  layer { dense { units: 10 } }
)";

TEST(ModelPlanTest, ShapesOfLeNetAreWorkedOut) {
  const auto plan = Plan(kLeNet, {1, 28, 28});
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<std::vector<int64_t>> shapes;
  for (const LayerPlan& layer : plan->layers) {
    shapes.push_back(layer.output_shape);
  }
  using Shape = std::vector<int64_t>;
  EXPECT_THAT(shapes,
              ElementsAre(Shape{6, 28, 28}, Shape{6, 28, 28}, Shape{6, 14, 14},
                          Shape{16, 10, 10}, Shape{16, 10, 10}, Shape{16, 5, 5},
                          Shape{400}, Shape{120}, Shape{10}));
  EXPECT_EQ(plan->layers[0].input_shape, (Shape{1, 28, 28}));
  EXPECT_EQ(plan->layers[8].input_shape, (Shape{120}));
}

TEST(ModelPlanTest, NestedTensorsAreNamedByThePathToThem) {
  const auto plan = Plan(R"(
    layer { repeat { times: 2 layer { residual {
      layer { conv2d { channels: 4 kernel: 3 stride: 2 padding: 1 } }
      layer { relu {} }
    } } } }
    layer { residual { layer { conv2d { channels: 4 kernel: 1 bias: false } } } }
    layer { global_average_pool {} }
    layer { name: "end" residual { layer { dense { units: 3 } } } }
  )",
                         {1, 8, 7});
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<std::string> names;
  for (const TensorSpec& tensor : plan->tensors) names.push_back(tensor.name);
  EXPECT_THAT(names,
              ElementsAre("repeat0.0.residual0.conv2d0.weight",
                          "repeat0.0.residual0.conv2d0.bias",
                          "repeat0.0.residual0.projection.weight",
                          "repeat0.1.residual0.conv2d0.weight",
                          "repeat0.1.residual0.conv2d0.bias",
                          "repeat0.1.residual0.projection.weight",
                          "residual1.conv2d0.weight", "end.dense0.weight",
                          "end.dense0.bias", "end.projection.weight"));
  // 8 x 7 becomes 4 x 4, then 2 x 2.
  EXPECT_THAT(plan->layers[0].output_shape, ElementsAre(4, 4, 4));
  EXPECT_THAT(plan->layers[1].output_shape, ElementsAre(4, 2, 2));
  EXPECT_TRUE(plan->layers[2].projection.empty());
}

TEST(ModelPlanTest, AResidualThatNoProjectionFitsIsRefused) {
  EXPECT_EQ(ErrorOf("layer { residual { layer { flatten {} } } }", {2, 3, 3}),
            "layer residual0: no 1x1 projection takes its input (2, 3, 3) to "
            "its layers' output (18)");
  EXPECT_EQ(ErrorOf("layer { residual { layer { max_pool { kernel: 2 stride: 1 "
                    "} } } }",
                    {2, 5, 5}),
            "layer residual0: no 1x1 projection takes its input (2, 5, 5) to "
            "its layers' output (2, 4, 4)");
}

// Of 4 rows strides of 2 and 3 leave 2, of 10 columns only 3 leaves 4.
TEST(ModelPlanTest, AProjectionsStrideFitsHeightAndWidth) {
  using Shape = std::vector<int64_t>;
  for (const Shape& input : {Shape{2, 4, 10}, Shape{2, 10, 4}}) {
    const auto plan = Plan(
        "layer { residual { layer { conv2d { channels: 3 kernel: 1 stride: 3 } "
        "} } } layer { flatten {} }",
        input);
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->layers[0].projection[0].layer.conv2d().stride(), 3);
  }
}

TEST(ModelPlanTest, RepeatsInRepeatsAreBounded) {
  EXPECT_THAT(
      ErrorOf("layer { repeat { times: 1000 layer { repeat { times: 1000 "
              "layer { relu {} } } } } }",
              {3}),
      HasSubstr("the model has more than 4096 layers"));
}

TEST(ModelPlanTest, TensorsAreNamedByLayerAndLieWeightBeforeBias) {
  const auto plan = Plan(kLeNet, {1, 28, 28});
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<std::string> names;
  int64_t end = 0;
  for (const TensorSpec& tensor : plan->tensors) {
    names.push_back(tensor.name);
    EXPECT_EQ(tensor.offset, end);
    end += tensor.size;
  }
  EXPECT_THAT(names,
              ElementsAre("conv2d0.weight", "conv2d0.bias", "second.weight",
                          "second.bias", "dense7.weight", "dense8.weight",
                          "dense8.bias"));
  EXPECT_THAT(plan->tensors[0].shape, ElementsAre(6, 1, 5, 5));
  EXPECT_THAT(plan->tensors[2].shape, ElementsAre(16, 6, 5, 5));
  EXPECT_THAT(plan->tensors[3].shape, ElementsAre(16));
  EXPECT_THAT(plan->tensors[4].shape, ElementsAre(120, 400));
  EXPECT_EQ(plan->layers[1].weight, -1);
  EXPECT_EQ(plan->layers[7].weight, 4);
  EXPECT_EQ(plan->layers[7].bias, -1);
  EXPECT_EQ(plan->layers[8].bias, 6);
  EXPECT_EQ(end, 6 * 25 + 6 + 16 * 150 + 16 + 120 * 400 + 10 * 120 + 10);
}

TEST(ModelPlanTest, BatchNormHasTwoTrainedTensorsAndTwoRunningStatistics) {
  const auto plan = Plan(
      "layer { conv2d { channels: 3 kernel: 1 } }"
      "layer { batch_norm { momentum: 0.25 } } layer { flatten {} }"
      "layer { batch_norm {} }",
      {1, 2, 2});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->layers[1].output_shape, ElementsAre(3, 2, 2));
  EXPECT_EQ(plan->layers[1].running_variance, 5);
  ASSERT_EQ(plan->tensors.size(), 10);
  const char* const names[] = {"gamma", "beta", "running_mean",
                               "running_variance"};
  const double starts[] = {1, 0, 0, 1};
  for (int i = 0; i < 4; ++i) {
    const TensorSpec& tensor = plan->tensors[2 + i];
    EXPECT_EQ(tensor.name, absl::StrCat("batch_norm1.", names[i]));
    EXPECT_THAT(tensor.shape, ElementsAre(3));
    EXPECT_EQ(tensor.initializer.kind, TensorInitializer::Kind::kConstant);
    EXPECT_EQ(tensor.initializer.value, starts[i]);
    EXPECT_EQ(tensor.factors.decay, 0);
    EXPECT_EQ(tensor.moving_average,
              i < 2 ? std::nullopt : std::optional<double>(0.25));
    EXPECT_THAT(plan->tensors[6 + i].shape, ElementsAre(12));
  }
  EXPECT_EQ(plan->tensors[9].moving_average, 0.1);
  EXPECT_EQ(plan->layers[3].layer.batch_norm().epsilon(), 1e-5);
  EXPECT_FALSE(plan->tensors[0].is_statistic());
}

TEST(ModelPlanTest, GroupNormHasAGammaAndABetaForEachChannel) {
  const auto plan = Plan(
      "layer { group_norm {} } layer { group_norm { groups: 2 } }"
      "layer { flatten {} }",
      {64, 3, 2});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->layers[1].output_shape, ElementsAre(64, 3, 2));
  EXPECT_EQ(plan->layers[0].layer.group_norm().groups(), 32);
  EXPECT_EQ(plan->layers[0].layer.group_norm().epsilon(), 1e-5);
  ASSERT_EQ(plan->tensors.size(), 4);
  EXPECT_EQ(plan->tensors[2].name, "group_norm1.gamma");
  EXPECT_EQ(plan->tensors[3].name, "group_norm1.beta");
  for (int i : {2, 3}) {
    EXPECT_THAT(plan->tensors[i].shape, ElementsAre(64));
    EXPECT_EQ(plan->tensors[i].initializer.value, i == 2 ? 1 : 0);
    EXPECT_EQ(plan->tensors[i].factors.decay, 0);
    EXPECT_FALSE(plan->tensors[i].is_statistic());
  }
}

TEST(ModelPlanTest, GroupsThatDoNotDivideTheChannelsAreRefused) {
  EXPECT_EQ(ErrorOf("layer { group_norm {} }", {48, 2, 2}),
            "layer group_norm0: group_norm.groups must divide the 48 channels, "
            "is 32");
  EXPECT_EQ(ErrorOf("layer { group_norm { groups: 0 } }", {48, 2, 2}),
            "layer group_norm0: group_norm.groups must be 1 or more, is 0");
  EXPECT_EQ(ErrorOf("layer { group_norm {} }", {64}),
            "layer group_norm0: expected (channels, height, width), got (64)");
}

TEST(ModelPlanTest, ABatchNormOfASequenceIsRefused) {
  EXPECT_EQ(ErrorOf("layer { embedding { features: 4 } } "
                    "layer { batch_norm {} }",
                    {3}),
            "layer batch_norm1: expected (channels, height, width) or "
            "(features), got (3, 4)");
}

TEST(ModelPlanTest, AResidualStartsItsLastGammaAtZeroOnRequest) {
  const auto plan = Plan(
      "layer { residual { zero_init_last_gamma: true "
      "layer { batch_norm {} } "
      "layer { repeat { times: 2 layer { batch_norm {} } layer { relu {} } } }"
      "} } layer { residual { layer { batch_norm {} } } }",
      {4});
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<double> gammas;
  for (const TensorSpec& tensor : plan->tensors) {
    if (absl::StrContains(tensor.name, "gamma")) {
      gammas.push_back(tensor.initializer.value);
    }
  }
  EXPECT_THAT(gammas, ElementsAre(1, 1, 0, 1));
  EXPECT_EQ(ErrorOf("layer { residual { zero_init_last_gamma: true "
                    "layer { dense { units: 4 } } } }",
                    {4}),
            "layer residual0: zero_init_last_gamma needs a batch_norm among "
            "its layers");
}

TEST(ModelPlanTest, StrideAndPaddingFollowTheUsualFormula) {
  const auto plan = Plan(
      "layer { conv2d { channels: 2 kernel: 3 stride: 2 padding: 1 } }"
      "layer { max_pool { kernel: 3 stride: 2 } }"
      "layer { average_pool { kernel: 3 stride: 2 padding: 1 } }"
      "layer { flatten {} }",
      {3, 13, 10});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_THAT(plan->layers[0].output_shape, ElementsAre(2, 7, 5));
  EXPECT_THAT(plan->layers[1].output_shape, ElementsAre(2, 3, 2));
  EXPECT_THAT(plan->layers[2].output_shape, ElementsAre(2, 2, 1));
}

TEST(ModelPlanTest, InitializersFollowTheirFormulas) {
  const auto plan = Plan(
      "layer { conv2d { channels: 8 kernel: 3 } } layer { flatten {} }"
      "layer { dense { units: 5 initializer { kind: XAVIER } } }"
      "layer { dense { units: 4 initializer { kind: CONSTANT value: 2 } } }",
      {2, 3, 3});
  ASSERT_TRUE(plan.ok()) << plan.status();
  using Kind = TensorInitializer::Kind;
  const auto& tensors = plan->tensors;
  EXPECT_EQ(tensors[0].initializer.kind, Kind::kUniform);
  EXPECT_DOUBLE_EQ(tensors[0].initializer.limit, std::sqrt(6.0 / (2 * 9)));
  EXPECT_DOUBLE_EQ(tensors[2].initializer.limit, std::sqrt(6.0 / (8 + 5)));
  EXPECT_EQ(tensors[4].initializer.kind, Kind::kConstant);
  EXPECT_EQ(tensors[4].initializer.value, 2);
  for (int bias : {1, 3, 5}) {
    EXPECT_EQ(tensors[bias].initializer.kind, Kind::kConstant);
    EXPECT_EQ(tensors[bias].initializer.value, 0);
    EXPECT_EQ(tensors[bias].factors.decay, 0);
    EXPECT_EQ(tensors[bias - 1].factors.decay, 1);
  }
}

TEST(ModelPlanTest, DefaultsAreFilledIntoTheLayer) {
  const auto plan = Plan(
      "layer { conv2d { channels: 8 kernel: 3 } } layer { max_pool { kernel: 3 "
      "} } layer { flatten {} }",
      {1, 9, 9});
  ASSERT_TRUE(plan.ok()) << plan.status();
  const proto::Conv2d& conv = plan->layers[0].layer.conv2d();
  EXPECT_EQ(plan->layers[0].layer.name(), "conv2d0");
  EXPECT_EQ(conv.stride(), 1);
  EXPECT_TRUE(conv.has_padding());
  EXPECT_TRUE(conv.bias());
  EXPECT_EQ(conv.initializer().kind(), proto::Initializer::HE);
  EXPECT_EQ(plan->layers[1].layer.max_pool().stride(), 3);
}

// Radford et al. 2019: norms before attention and MLP, one behind the blocks.
std::string Gpt2(int blocks, int features, int heads) {
  const auto dense = [&](int times) {
    return absl::StrCat("layer { dense { units: ", times * features, " } } ");
  };
  return absl::StrCat(
      "layer { embedding { vocabulary: 50257 features: ", features,
      " } } layer { repeat { times: ", blocks,
      " layer { residual { layer { layer_norm {} } ", dense(3),
      "layer { attention { heads: ", heads, " } } ", dense(1),
      "} } layer { residual { layer { layer_norm {} } ", dense(4),
      "layer { gelu {} } ", dense(1),
      "} } } } layer { layer_norm {} } layer { tied_output {} }");
}

TEST(ModelPlanTest, TransformersHaveTheirPublishedSizes) {
  const auto weights = [](const std::string& model) {
    const auto plan = Plan(model, {1024});
    EXPECT_TRUE(plan.ok()) << plan.status();
    return plan->tensors.back().offset + plan->tensors.back().size;
  };
  // GPT-2's four, as their published weights count.
  EXPECT_EQ(weights(Gpt2(12, 768, 12)), 124'439'808);
  EXPECT_EQ(weights(Gpt2(24, 1024, 16)), 354'823'168);
  EXPECT_EQ(weights(Gpt2(36, 1280, 20)), 774'030'080);
  EXPECT_EQ(weights(Gpt2(48, 1600, 25)), 1'557'611'200);
}

TEST(ModelPlanTest, ASequencesShapesAreWorkedOut) {
  const auto plan = Plan(
      "layer { embedding { features: 6 } } layer { layer_norm {} }"
      "layer { dense { units: 12 } } layer { attention { heads: 2 } }"
      "layer { dense { units: 6 } } layer { tied_output {} }",
      {10});
  ASSERT_TRUE(plan.ok()) << plan.status();
  std::vector<std::vector<int64_t>> shapes;
  for (const LayerPlan& layer : plan->layers) {
    shapes.push_back(layer.output_shape);
  }
  using Shape = std::vector<int64_t>;
  EXPECT_THAT(shapes, ElementsAre(Shape{10, 6}, Shape{10, 6}, Shape{10, 12},
                                  Shape{10, 4}, Shape{10, 6}, Shape{10, 256}));
  std::vector<std::string> names;
  for (const TensorSpec& tensor : plan->tensors) {
    names.push_back(absl::StrCat(tensor.name, " ", tensor.size));
  }
  EXPECT_THAT(names,
              ElementsAre("embedding0.token 1536", "embedding0.position 60",
                          "layer_norm1.gamma 6", "layer_norm1.beta 6",
                          "dense2.weight 72", "dense2.bias 12",
                          "dense4.weight 24", "dense4.bias 6"));
  EXPECT_EQ(plan->vocabulary, 256);
  EXPECT_TRUE(plan->tied_output);
  // The output's weights are the embedding's.
  EXPECT_EQ(plan->layers[5].weight, plan->layers[0].weight);
  // A uniform number between -a and a has deviation a / sqrt 3.
  EXPECT_DOUBLE_EQ(plan->tensors[0].initializer.limit, 0.02 * std::sqrt(3));
  EXPECT_EQ(plan->tensors[2].initializer.value, 1);
  EXPECT_EQ(plan->tensors[2].factors.decay, 0);
  EXPECT_EQ(plan->tensors[3].factors.decay, 0);
}

TEST(ModelPlanTest, WhatDoesNotFitASequenceIsRefused) {
  const std::string embedding = "layer { embedding { features: 6 } } ";
  EXPECT_EQ(ErrorOf("layer { embedding { features: 6 } }", {1, 4, 4}),
            "layer embedding0: must be the first layer of a model on bytes, "
            "(length); got (1, 4, 4)");
  EXPECT_EQ(ErrorOf("layer { dense { units: 4 } } " + embedding, {4}),
            "layer embedding1: must be the first layer of a model on bytes, "
            "(length); comes behind others, got (4)");
  EXPECT_EQ(ErrorOf("layer { attention { heads: 2 } }", {12}),
            "layer attention0: expected (length, 3 x features), of which each "
            "of 2 heads has as many, got (12)");
  EXPECT_EQ(
      ErrorOf(embedding + "layer { attention { heads: 4 } }", {10}),
      "layer attention1: expected (length, 3 x features), of which each of 4 "
      "heads has as many, got (10, 6)");
  EXPECT_EQ(ErrorOf("layer { tied_output {} }", {4}),
            "layer tied_output0: needs an embedding before it, there is none");
  EXPECT_EQ(ErrorOf(embedding + "layer { dense { units: 5 } } "
                                "layer { tied_output {} }",
                    {10}),
            "layer tied_output2: expected (length, 6), the embedding's "
            "features, got (10, 5)");
  EXPECT_EQ(ErrorOf(embedding + "layer { tied_output {} } "
                                "layer { dense { units: 6 } } "
                                "layer { tied_output {} }",
                    {10}),
            "layer tied_output3: a model has at most one tied_output");
  EXPECT_EQ(ErrorOf("layer { layer_norm {} }", {1, 4, 4}),
            "layer layer_norm0: expected (length, features) or (features), "
            "got (1, 4, 4)");
}

TEST(ModelPlanTest, ErrorsNameTheLayerWhatWasExpectedAndWhatCame) {
  EXPECT_EQ(
      ErrorOf("layer { relu {} } layer { dense { units: 3 } }", {1, 28, 28}),
      "layer dense1: expected a flat input (features), got (1, 28, 28); "
      "put a flatten before it");
  EXPECT_EQ(ErrorOf("layer { max_pool { kernel: 2 } }", {784}),
            "layer max_pool0: expected (channels, height, width), got (784)");
  EXPECT_EQ(ErrorOf("layer { name: \"c\" conv2d { channels: 1 kernel: 5 } }",
                    {1, 4, 9}),
            "layer c: a kernel of 5 does not fit into (1, 4, 9) with padding "
            "0");
  EXPECT_EQ(ErrorOf("layer { max_pool { kernel: 2 padding: 2 } }", {1, 4, 4}),
            "layer max_pool0: padding must be below kernel, 2, is 2");
  EXPECT_EQ(ErrorOf("layer { max_pool { kernel: 2 padding: -1 } }", {1, 4, 4}),
            "layer max_pool0: padding must be 0 or more, is -1");
  EXPECT_EQ(ErrorOf("layer { dense { units: 0 } }", {4}),
            "layer dense0: dense.units must be 1 or more, is 0");
  EXPECT_EQ(ErrorOf("layer { conv2d { channels: 1 kernel: 1 } }", {1, 4, 4}),
            "layer conv2d0: the loss expects a flat output, got (1, 4, 4); put "
            "a flatten after it");
  EXPECT_THAT(ErrorOf("layer { name: \"x\" }", {4}),
              HasSubstr("layer x: expected a kind of layer"));
}

TEST(ModelPlanTest, TwoLayersOfOneNameAreRefused) {
  EXPECT_EQ(ErrorOf("layer { name: \"dense1\" dense { units: 3 } }"
                    "layer { dense { units: 3 } }",
                    {4}),
            "layer dense1: layers 0 and 1 have the same name");
}

TEST(ModelPlanTest, AModelWithoutWeightsIsRefused) {
  EXPECT_THAT(ErrorOf("layer { relu {} }", {4}), HasSubstr("got none"));
}

TEST(ModelPlanTest, SizesThatOverflowAreRefused) {
  EXPECT_THAT(ErrorOf("layer { dense { units: 2147483647 } }"
                      "layer { dense { units: 2147483647 } }",
                      {2}),
              HasSubstr("more than"));
  EXPECT_THAT(ErrorOf("layer { conv2d { channels: 2147483647 "
                      "kernel: 2147483647 padding: 2147483647 } }",
                      {1, 4, 4}),
              HasSubstr("too large"));
}

}  // namespace
}  // namespace sluice

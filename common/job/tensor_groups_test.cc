#include "common/job/tensor_groups.h"

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TensorSpec Tensor(const std::string& name, double decay = 1) {
  TensorSpec tensor;
  tensor.name = name;
  tensor.factors.decay = decay;
  return tensor;
}

class TensorGroupsTest : public testing::Test {
 protected:
  TensorGroupsTest() { tensors_[4].moving_average = 0.1; }

  std::vector<std::string> Apply(const std::string& groups) {
    proto::Optimizer optimizer;
    EXPECT_TRUE(
        google::protobuf::TextFormat::ParseFromString(groups, &optimizer));
    return ApplyTensorGroups(optimizer, &tensors_);
  }
  // Of conv.weight, conv.bias, head.weight, head.bias.
  std::vector<double> Rates() const {
    std::vector<double> rates;
    for (int i = 0; i < 4; ++i) rates.push_back(tensors_[i].factors.rate);
    return rates;
  }
  std::vector<double> Decays() const {
    std::vector<double> decays;
    for (int i = 0; i < 4; ++i) decays.push_back(tensors_[i].factors.decay);
    return decays;
  }

  std::vector<TensorSpec> tensors_ = {
      Tensor("conv.weight"), Tensor("conv.bias", 0), Tensor("head.weight"),
      Tensor("head.bias", 0), Tensor("norm.mean", 0)};
};

TEST_F(TensorGroupsTest, WithoutGroupsNothingChanges) {
  EXPECT_THAT(Apply(""), IsEmpty());
  EXPECT_THAT(Rates(), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(Decays(), ElementsAre(1, 0, 1, 0));
}

TEST_F(TensorGroupsTest, AGroupWithoutADecayLeavesThatOfTheKind) {
  EXPECT_THAT(Apply("group { tensor: 'head.*' learning_rate_factor: 10 }"),
              IsEmpty());
  EXPECT_THAT(Rates(), ElementsAre(1, 1, 10, 10));
  EXPECT_THAT(Decays(), ElementsAre(1, 0, 1, 0));
}

TEST_F(TensorGroupsTest, ADecayIsThatOfAllTensorsOfTheGroup) {
  EXPECT_THAT(Apply("group { tensor: '*.bias' tensor: 'conv.weight' "
                    "learning_rate_factor: 1 weight_decay_factor: 0.5 }"),
              IsEmpty());
  EXPECT_THAT(Rates(), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(Decays(), ElementsAre(0.5, 0.5, 1, 0.5));
}

TEST_F(TensorGroupsTest, APatternThatFitsNothingIsNamed) {
  EXPECT_THAT(Apply("group { tensor: 'conv.*' tensor: 'heads.*' }"),
              ElementsAre("optimizer.group[0].tensor[1]: must name a trained "
                          "tensor, is \"heads.*\"; `sluice check` lists them, "
                          "conv.weight is one"));
  // A running statistic has no rate.
  tensors_[0].moving_average = 0.1;
  EXPECT_THAT(Apply("group { tensor: 'norm.mean' }"),
              ElementsAre("optimizer.group[0].tensor[0]: must name a trained "
                          "tensor, is \"norm.mean\"; `sluice check` lists "
                          "them, conv.bias is one"));
  for (TensorSpec& tensor : tensors_) tensor.moving_average = 0.1;
  EXPECT_THAT(Apply("group { tensor: 'norm.mean' }"),
              ElementsAre("optimizer.group[0].tensor[0]: must name a trained "
                          "tensor, is \"norm.mean\"; the model has none"));
}

// Those of a model process may have any printable character.
TEST_F(TensorGroupsTest, ANameWithBracketsAndBackslashesNamesItsTensor) {
  tensors_[0].name = "net[0]['w']";
  tensors_[1].name = "net0w";
  tensors_[2].name = R"(a\b)";
  EXPECT_THAT(Apply("group { tensor: \"net[0]['w']\" tensor: 'a\\\\b' "
                    "learning_rate_factor: 2 }"),
              IsEmpty());
  EXPECT_THAT(Rates(), ElementsAre(2, 1, 2, 1));
  EXPECT_THAT(Apply("group { tensor: 'net[*' learning_rate_factor: 3 }"),
              IsEmpty());
  EXPECT_THAT(Rates(), ElementsAre(3, 1, 2, 1));
}

TEST_F(TensorGroupsTest, ATensorOfTwoGroupsIsNamedWithBoth) {
  EXPECT_THAT(
      Apply("group { tensor: 'conv.*' } group { tensor: '*.bias' }"),
      ElementsAre("optimizer.group[1].tensor[0]: must not name conv.bias, "
                  "which optimizer.group[0].tensor[0] does"));
}

}  // namespace
}  // namespace sluice

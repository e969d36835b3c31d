#include "kernels/cuda/libraries/convolution_choice.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice::kernels::cuda {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(ConvolutionChoiceTest, TheLibrarysOrderIsKept) {
  EXPECT_THAT(
      ConvolutionChoices(ConvolutionKind::kForward,
                         {{1, true, true}, {2, true, true}, {0, true, true}}),
      ElementsAre(1, 2, 0));
}

TEST(ConvolutionChoiceTest, FftAndWinogradAreLeftOut) {
  EXPECT_THAT(
      ConvolutionChoices(
          ConvolutionKind::kForward,
          {{6, true, true}, {4, true, true}, {7, true, true}, {1, true, true}}),
      ElementsAre(1));
  for (const ConvolutionKind kind :
       {ConvolutionKind::kInputGradient, ConvolutionKind::kWeightGradient}) {
    EXPECT_THAT(ConvolutionChoices(
                    kind, {{5, true, true}, {1, true, true}, {0, true, true}}),
                ElementsAre(1));
  }
}

TEST(ConvolutionChoiceTest, WhatMayDifferFromRunToRunIsLeftOut) {
  EXPECT_THAT(ConvolutionChoices(ConvolutionKind::kForward,
                                 {{1, true, false}, {0, true, true}}),
              ElementsAre(0));
}

TEST(ConvolutionChoiceTest, WhatCannotDoTheShapeIsLeftOut) {
  EXPECT_THAT(ConvolutionChoices(ConvolutionKind::kWeightGradient,
                                 {{1, false, true}, {3, true, false}}),
              IsEmpty());
}

}  // namespace
}  // namespace sluice::kernels::cuda

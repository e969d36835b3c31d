#include "worker/model/segments.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(SegmentsTest, ShortLayersAreJoinedUpToTwoMilliseconds) {
  EXPECT_THAT(JoinLayers({0.5e-3, 0.5e-3, 0.9e-3, 0.2e-3, 0.3e-3}),
              ElementsAre(Segment{0, 3}, Segment{3, 5}));
}

TEST(SegmentsTest, ALongerLayerIsAlone) {
  EXPECT_THAT(JoinLayers({0.1e-3, 7e-3, 0.1e-3, 0.1e-3, 3e-3, 3e-3}),
              ElementsAre(Segment{0, 1}, Segment{1, 2}, Segment{2, 4},
                          Segment{4, 5}, Segment{5, 6}));
}

TEST(SegmentsTest, WhatTakesNextToNothingIsNoSegmentOfItsOwn) {
  EXPECT_THAT(
      JoinLayers({3e-3, 10e-6, 3e-3, 30e-6, 3e-3}),
      ElementsAre(Segment{0, 2}, Segment{2, 3}, Segment{3, 4}, Segment{4, 5}));
}

TEST(SegmentsTest, LayersThatTakeNoTimeAreOneSegment) {
  EXPECT_THAT(JoinLayers({0, 0, 0}), ElementsAre(Segment{0, 3}));
  EXPECT_THAT(JoinLayers({}), IsEmpty());
}

}  // namespace
}  // namespace sluice

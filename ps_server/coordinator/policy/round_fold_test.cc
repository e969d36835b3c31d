#include "ps_server/coordinator/policy/round_fold.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

GradientKey Key(int64_t worker) {
  return {Generation(1), WorkerId(worker), Incarnation(1), Sequence(1)};
}

TEST(RoundFoldTest, GradientsGoInTheOrderOfTheirBlocks) {
  RoundFold fold;
  fold.Begin(BlockId(6), {{100}, {100}, {100}});
  EXPECT_EQ(fold.TurnOf(BlockId(8)), 2);
  fold.Ready(BlockId(7), Key(0));
  EXPECT_THAT(fold.Take(1), IsEmpty());
  fold.Ready(BlockId(6), Key(1));
  EXPECT_THAT(fold.Take(1), ElementsAre(CommitEntry{Key(1), 1.0f / 3},
                                        CommitEntry{Key(0), 1.0f / 3}));
  EXPECT_THAT(fold.Take(1), IsEmpty());
  EXPECT_EQ(fold.taken(), 2);
}

TEST(RoundFoldTest, AShortMiniBatchWeighsLessFromTheBeginning) {
  RoundFold fold;
  fold.Begin(BlockId(0), {{100}, {100}, {50}});
  fold.Ready(BlockId(0), Key(0));
  EXPECT_THAT(fold.Take(1), ElementsAre(CommitEntry{Key(0), 0.4f}));
  double total = 0;
  for (const float weight : {0.4f, 0.4f, 0.2f}) total += weight;
  EXPECT_EQ(fold.total_weight(), total);
}

TEST(RoundFoldTest, AFewWaitForMore) {
  RoundFold fold;
  fold.Begin(BlockId(0), {{100}, {100}, {100}});
  fold.Ready(BlockId(0), Key(0));
  EXPECT_THAT(fold.Take(2), IsEmpty());
  fold.Ready(BlockId(1), Key(1));
  EXPECT_EQ(fold.Take(2).size(), 2u);
}

TEST(RoundFoldTest, ARoundBeginsWithNothing) {
  RoundFold fold;
  fold.Begin(BlockId(0), {{100}, {100}});
  fold.Ready(BlockId(0), Key(0));
  fold.Take(1);
  fold.Begin(BlockId(2), {{100}, {100}});
  EXPECT_EQ(fold.taken(), 0);
  fold.Ready(BlockId(3), Key(0));
  EXPECT_THAT(fold.Take(1), IsEmpty());
}

}  // namespace
}  // namespace sluice

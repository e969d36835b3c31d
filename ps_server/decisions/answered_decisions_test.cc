#include "ps_server/decisions/answered_decisions.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class AnsweredDecisionsTest : public ::testing::Test {
 protected:
  void BeginCommit() { decisions_.Begin({++begun_, Commit()}); }
  void BeginDiscard() { decisions_.Begin({++begun_, Discard()}); }
  // Ends all that has begun: the numbers that are answered.
  std::vector<int64_t> End() {
    std::vector<int64_t> answered;
    while (ended_ < begun_) {
      if (decisions_.End(++ended_, /*own=*/false)) answered.push_back(ended_);
    }
    return answered;
  }

  int64_t begun_ = 0;
  int64_t ended_ = 0;
  AnsweredDecisions decisions_;
};

TEST_F(AnsweredDecisionsTest, ADecisionThatComesAloneIsAnswered) {
  BeginCommit();
  EXPECT_THAT(End(), ElementsAre(1));
  BeginDiscard();
  EXPECT_THAT(End(), ElementsAre(2));
}

TEST_F(AnsweredDecisionsTest, OneAnswerStandsForACommitAndItsDiscards) {
  BeginCommit();
  BeginDiscard();
  BeginDiscard();
  EXPECT_THAT(End(), ElementsAre(3));
}

TEST_F(AnsweredDecisionsTest, WhatACommitHasToSayItSaysItself) {
  BeginCommit();
  BeginDiscard();
  EXPECT_TRUE(decisions_.End(++ended_, /*own=*/true));
  EXPECT_THAT(End(), ElementsAre(2)) << "nor does it answer for the Discard";
}

TEST_F(AnsweredDecisionsTest, NoAnswerWaitsForTheCommitAfterIt) {
  BeginDiscard();
  BeginDiscard();
  BeginCommit();
  BeginCommit();
  BeginDiscard();
  EXPECT_THAT(End(), ElementsAre(2, 3, 5));
}

TEST_F(AnsweredDecisionsTest, WhatComesDuringTheExecutionIsAnsweredWithIt) {
  BeginCommit();
  BeginDiscard();
  EXPECT_FALSE(decisions_.End(++ended_, /*own=*/false));
  BeginDiscard();
  EXPECT_THAT(End(), ElementsAre(3));
  EXPECT_THAT(End(), IsEmpty());
}

}  // namespace
}  // namespace sluice

#include "ps_server/coordinator/versions/evaluations.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

const absl::Time kStart = absl::UnixEpoch();

TEST(EvaluationsTest, OneFallsDueEachTimeTheInterval) {
  Evaluations evaluations(10);
  evaluations.SamplesApplied(0, 9);
  EXPECT_FALSE(evaluations.ShouldStart());
  evaluations.SamplesApplied(9, 10);
  EXPECT_TRUE(evaluations.ShouldStart());
}

TEST(EvaluationsTest, TheNextWaitsForTheRunningOne) {
  Evaluations evaluations(10);
  evaluations.SamplesApplied(0, 10);
  evaluations.Start(Version(1), false, kStart);
  evaluations.SamplesApplied(10, 20);
  EXPECT_FALSE(evaluations.ShouldStart());
  EXPECT_FALSE(evaluations.Answer(Version(7)).has_value());
  EXPECT_EQ(evaluations.Answer(Version(1))->version, Version(1));
  EXPECT_TRUE(evaluations.ShouldStart());
  EXPECT_FALSE(evaluations.Answer(Version(1)).has_value());
}

TEST(EvaluationsTest, WhatWasGivenUpIsDueAgain) {
  Evaluations evaluations(10);
  evaluations.SamplesApplied(0, 10);
  evaluations.Start(Version(1), false, kStart);
  EXPECT_EQ(evaluations.GiveUp()->version, Version(1));
  EXPECT_FALSE(evaluations.GiveUp().has_value());
  EXPECT_TRUE(evaluations.ShouldStart());
}

TEST(EvaluationsTest, OnlyTheAnswerToTheFinalOneIsFinal) {
  Evaluations evaluations(0);
  evaluations.SamplesApplied(0, 1000);
  EXPECT_FALSE(evaluations.ShouldStart());
  evaluations.Start(Version(1), false, kStart);
  evaluations.Answer(Version(1));
  EXPECT_FALSE(evaluations.final_done());
  evaluations.Start(Version(1), true, kStart);
  evaluations.GiveUp();
  EXPECT_FALSE(evaluations.final_done());
  evaluations.Start(Version(1), true, kStart);
  evaluations.Answer(Version(1));
  EXPECT_TRUE(evaluations.final_done());
}

TEST(EvaluationsTest, OverrunsAreCountedInARow) {
  Evaluations evaluations(10);
  evaluations.SamplesApplied(0, 10);
  evaluations.Start(Version(1), false, kStart);
  EXPECT_EQ(evaluations.Overrun(), 1);
  evaluations.GiveUp();
  evaluations.Start(Version(1), false, kStart);
  EXPECT_EQ(evaluations.Overrun(), 2);
  evaluations.Answer(Version(1));
  EXPECT_EQ(evaluations.overruns(), 0);
}

TEST(EvaluationsTest, LossesAreCountedInARow) {
  Evaluations evaluations(10);
  evaluations.Start(Version(1), true, kStart);
  EXPECT_EQ(evaluations.Lost(), 1);
  EXPECT_EQ(evaluations.Overrun(), 1) << "apart";
  EXPECT_EQ(evaluations.Lost(), 2);
  evaluations.Answer(Version(1));
  EXPECT_EQ(evaluations.Lost(), 1);
}

TEST(EvaluationsTest, WhatIsSkippedIsNotDueAndTheFinalOneIsDone) {
  Evaluations evaluations(10);
  evaluations.SamplesApplied(0, 10);
  evaluations.Skip(/*final=*/false);
  EXPECT_FALSE(evaluations.ShouldStart());
  EXPECT_FALSE(evaluations.final_done());
  evaluations.Skip(/*final=*/true);
  EXPECT_TRUE(evaluations.final_done());
}

TEST(EvaluationsTest, AfterOneThatIsSkippedTheNextHasAllItsAttempts) {
  Evaluations evaluations(10);
  evaluations.SamplesApplied(0, 10);
  evaluations.Start(Version(1), false, kStart);
  evaluations.Overrun();
  evaluations.Lost();
  evaluations.GiveUp();
  evaluations.Skip(/*final=*/false);
  evaluations.Start(Version(2), true, kStart);
  EXPECT_EQ(evaluations.Overrun(), 1);
  EXPECT_EQ(evaluations.Lost(), 1);
}

}  // namespace
}  // namespace sluice

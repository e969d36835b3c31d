#include "worker/lives.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

const absl::Status kOver = absl::AbortedError("generation 1 is over");
const absl::Status kOutOfReach = absl::UnavailableError("shard 1 is away");

TEST(LivesTest, AGenerationThatIsOverIsFollowedByAnotherLifeHoweverOften) {
  Lives lives;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(lives.Another({.session = kOver}));
    EXPECT_TRUE(lives.Another({.worked = kOutOfReach, .session = kOver}));
  }
}

TEST(LivesTest, TheEndOfTheRunIsTheEnd) {
  Lives lives;
  EXPECT_FALSE(lives.Another({.finish = proto::Finish()}));
  EXPECT_FALSE(lives.Another({.finish = proto::Finish(), .session = kOver}));
}

TEST(LivesTest, WhoIsToldToLeaveLeaves) {
  Lives lives;
  EXPECT_FALSE(lives.Another({.told_to_leave = true, .session = kOver}));
  EXPECT_FALSE(lives.Another({.told_to_leave = true, .worked = kOutOfReach}));
}

TEST(LivesTest, ACoordinatorThatIsGoneIsTheEnd) {
  Lives lives;
  EXPECT_FALSE(lives.Another({.session = kOutOfReach}));
}

TEST(LivesTest, AShardThatStaysOutOfReachWhileTheSessionLivesIsTheEnd) {
  Lives lives;
  EXPECT_FALSE(lives.Another({.worked = kOutOfReach}));
}

TEST(LivesTest, AShardThatIsLostIsLookedForAgainAFewTimesInARow) {
  for (const absl::Status& lost :
       {absl::FailedPreconditionError("generation 2"),
        absl::CancelledError("the server is shutting down")}) {
    Lives lives;
    for (int i = 0; i < Lives::kMostFruitless; ++i) {
      EXPECT_TRUE(lives.Another({.worked = lost}));
    }
    EXPECT_FALSE(lives.Another({.worked = lost}));
  }
}

TEST(LivesTest, ADeliveryBeginsTheCountAnew) {
  Lives lives;
  for (int i = 0; i < 3 * Lives::kMostFruitless; ++i) {
    EXPECT_TRUE(
        lives.Another({.worked = absl::FailedPreconditionError("generation 2"),
                       .delivered = i % 4 == 0}));
  }
}

TEST(LivesTest, WhatIsWrongWithTheWorkItselfIsTheEnd) {
  Lives lives;
  const absl::Status damaged = absl::DataLossError("a checksum is wrong");
  EXPECT_FALSE(lives.Another({.worked = damaged}));
  EXPECT_FALSE(lives.Another({.worked = damaged, .session = kOver}));
}

}  // namespace
}  // namespace sluice

#include "worker/rejoin_policy.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

const absl::Status kOver = absl::AbortedError("generation 1 is over");
const absl::Status kOutOfReach = absl::UnavailableError("shard 1 is away");

TEST(RejoinPolicyTest,
     AGenerationThatIsOverIsFollowedByAnotherLifeHoweverOften) {
  RejoinPolicy rejoin;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(rejoin.Rejoins({.session = kOver}));
    EXPECT_TRUE(rejoin.Rejoins({.worked = kOutOfReach, .session = kOver}));
  }
}

TEST(RejoinPolicyTest, TheEndOfTheRunIsTheEnd) {
  RejoinPolicy rejoin;
  EXPECT_FALSE(rejoin.Rejoins({.finish = proto::Finish()}));
  EXPECT_FALSE(rejoin.Rejoins({.finish = proto::Finish(), .session = kOver}));
}

TEST(RejoinPolicyTest, WhoIsToldToLeaveLeaves) {
  RejoinPolicy rejoin;
  EXPECT_FALSE(rejoin.Rejoins({.told_to_leave = true, .session = kOver}));
  EXPECT_FALSE(rejoin.Rejoins({.told_to_leave = true, .worked = kOutOfReach}));
}

TEST(RejoinPolicyTest, ACoordinatorThatIsGoneIsTheEnd) {
  RejoinPolicy rejoin;
  EXPECT_FALSE(rejoin.Rejoins({.session = kOutOfReach}));
}

TEST(RejoinPolicyTest, AShardThatStaysOutOfReachWhileTheSessionLivesIsTheEnd) {
  RejoinPolicy rejoin;
  EXPECT_FALSE(rejoin.Rejoins({.worked = kOutOfReach}));
}

// Else a member behind the first would look for a shard for ever.
TEST(RejoinPolicyTest, ForAMemberBehindTheFirstAShardOutOfReachIsTheEnd) {
  const auto rejoins = [](const absl::Status& worked, bool link_broken) {
    RejoinPolicy rejoin;
    return rejoin.Rejoins({.worked = worked,
                           .session = SessionOfMember(worked, link_broken),
                           .link_broken = link_broken});
  };
  EXPECT_FALSE(rejoins(kOutOfReach, false));
  EXPECT_TRUE(rejoins(kOutOfReach, true)) << "another member was first";
  EXPECT_TRUE(rejoins(absl::OkStatus(), false));
  EXPECT_TRUE(rejoins(absl::OkStatus(), true));
}

TEST(RejoinPolicyTest, AShardThatIsLostIsLookedForAgainAFewTimesInARow) {
  for (const absl::Status& lost :
       {absl::FailedPreconditionError("generation 2"),
        absl::CancelledError("the server is shutting down")}) {
    RejoinPolicy rejoin;
    for (int i = 0; i < RejoinPolicy::kMostFruitless; ++i) {
      EXPECT_TRUE(rejoin.Rejoins({.worked = lost}));
    }
    EXPECT_FALSE(rejoin.Rejoins({.worked = lost}));
  }
}

TEST(RejoinPolicyTest, ADeliveryBeginsTheCountAnew) {
  RejoinPolicy rejoin;
  for (int i = 0; i < 3 * RejoinPolicy::kMostFruitless; ++i) {
    EXPECT_TRUE(
        rejoin.Rejoins({.worked = absl::FailedPreconditionError("generation 2"),
                        .delivered = i % 4 == 0}));
  }
}

TEST(RejoinPolicyTest,
     AModelProcessThatOnceWorkedAndDiesIsFollowedByAnotherAFewTimes) {
  for (const absl::Status& died :
       {kOutOfReach, absl::InvalidArgumentError("it sent garbage"),
        absl::DeadlineExceededError("it said nothing")}) {
    RejoinPolicy rejoin;
    EXPECT_TRUE(rejoin.Rejoins({.session = kOver, .delivered = true}));
    for (int i = 0; i < RejoinPolicy::kMostFruitless; ++i) {
      EXPECT_FALSE(rejoin.last_try());
      EXPECT_TRUE(rejoin.Rejoins({.worked = died, .gradient_broken = true}));
      EXPECT_EQ(rejoin.pause(),
                i == 0 ? absl::ZeroDuration() : absl::Seconds(1 << (i - 1)));
    }
    EXPECT_TRUE(rejoin.last_try());
    EXPECT_FALSE(rejoin.Rejoins({.worked = died, .gradient_broken = true}));
  }
}

TEST(RejoinPolicyTest, AModelProcessThatHasNeverWorkedIsTriedOnceMore) {
  RejoinPolicy rejoin;
  const LifeEnd failed = {.worked = kOutOfReach, .gradient_broken = true};
  EXPECT_FALSE(rejoin.last_try());
  EXPECT_TRUE(rejoin.Rejoins(failed));
  EXPECT_EQ(rejoin.pause(), absl::ZeroDuration());
  EXPECT_TRUE(rejoin.last_try());
  EXPECT_FALSE(rejoin.Rejoins(failed));
}

TEST(RejoinPolicyTest, OneThatDiedAfterADeliveryIsStartedAgainAtOnce) {
  RejoinPolicy rejoin;
  for (int i = 0; i < 3 * RejoinPolicy::kMostFruitless; ++i) {
    EXPECT_TRUE(rejoin.Rejoins(
        {.worked = kOutOfReach, .delivered = true, .gradient_broken = true}));
    EXPECT_EQ(rejoin.pause(), absl::ZeroDuration());
  }
}

TEST(RejoinPolicyTest, HoweverOftenAnotherMemberIsGoneItIsWaitedFor) {
  RejoinPolicy rejoin;
  for (int i = 0; i < 3 * RejoinPolicy::kMostFruitless; ++i) {
    EXPECT_TRUE(rejoin.Rejoins({.worked = kOutOfReach, .link_broken = true}));
  }
}

TEST(RejoinPolicyTest, WhatIsWrongWithTheWorkItselfIsTheEnd) {
  RejoinPolicy rejoin;
  const absl::Status damaged = absl::DataLossError("a checksum is wrong");
  EXPECT_FALSE(rejoin.Rejoins({.worked = damaged}));
  EXPECT_FALSE(rejoin.Rejoins({.worked = damaged, .session = kOver}));
  EXPECT_FALSE(rejoin.Rejoins({.worked = damaged, .link_broken = true}));
}

}  // namespace
}  // namespace sluice

#include "worker/exchange/shard_calls.h"

#include "common/exchange_error.h"
#include "common/process/exit_codes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const absl::Time kStart = absl::UnixEpoch();
const absl::Status kRefused = absl::UnavailableError("connection refused");

ShardCalls TwoCalls() {
  return ShardCalls(
      {"shard 0 at a:1", "shard 1 at b:2"},
      {.stall = absl::Seconds(30), .partition = absl::Seconds(5)});
}

TEST(ShardCallsTest, AllSucceedWhenTheLastOneDoes) {
  ShardCalls calls = TwoCalls();
  calls.Ended(1, absl::OkStatus(), kStart);
  EXPECT_FALSE(calls.succeeded());
  EXPECT_FALSE(calls.idle());
  calls.Ended(0, absl::OkStatus(), kStart);
  EXPECT_TRUE(calls.succeeded());
  EXPECT_TRUE(calls.idle());
  EXPECT_EQ(calls.next_due(), absl::InfiniteFuture());
}

TEST(ShardCallsTest, OnlyTheCallThatBrokeIsRepeatedOnceItsTimeHasCome) {
  ShardCalls calls = TwoCalls();
  calls.Ended(0, absl::OkStatus(), kStart);
  calls.Ended(1, kRefused, kStart);
  EXPECT_TRUE(calls.idle());
  EXPECT_THAT(calls.TakeDue(kStart), IsEmpty());
  const absl::Time due = calls.next_due();
  EXPECT_THAT(calls.TakeDue(due), ElementsAre(1));
  EXPECT_FALSE(calls.idle());
  calls.Ended(1, absl::OkStatus(), due);
  EXPECT_TRUE(calls.succeeded());
  EXPECT_TRUE(calls.failure().ok());
}

TEST(ShardCallsTest, ACallIsFarEnoughWhenItHasProgressedOrSucceeded) {
  ShardCalls calls = TwoCalls();
  EXPECT_TRUE(calls.reached({0, 0}));
  EXPECT_FALSE(calls.reached({1, 0}));
  calls.Progressed(0, 10, kStart);
  EXPECT_TRUE(calls.reached({10, 0}));
  EXPECT_FALSE(calls.reached({11, 0}));
  EXPECT_FALSE(calls.reached({10, 1}));
  calls.Ended(1, absl::OkStatus(), kStart);
  EXPECT_TRUE(calls.reached({10, 1}));
  EXPECT_THAT(calls.progress(), ElementsAre(10, 0));
}

TEST(ShardCallsTest, ACallThatIsRepeatedGoesOnUnlessItBeginsAnew) {
  ShardCalls calls = TwoCalls();
  calls.Progressed(1, 10, kStart);
  calls.Ended(1, kRefused, kStart);
  ASSERT_THAT(calls.TakeDue(calls.next_due()), ElementsAre(1));
  EXPECT_TRUE(calls.reached({0, 10}));
  calls.BeginsAnew(1);
  EXPECT_FALSE(calls.reached({0, 10}));
  EXPECT_THAT(calls.progress(), ElementsAre(0, 0));
}

// ---- Stalls ----

constexpr absl::Duration kSecond = absl::Seconds(1);

TEST(ShardCallsTest, ACallInWhichNothingMovesIsGivenUpAndRepeated) {
  ShardCalls calls = TwoCalls();
  calls.Asked(1, kStart);
  EXPECT_EQ(calls.next_stall(), kStart + 30 * kSecond);
  EXPECT_THAT(calls.TakeStalled(kStart + 29 * kSecond), IsEmpty());
  const absl::Time then = kStart + 30 * kSecond;
  EXPECT_THAT(calls.TakeStalled(then), ElementsAre(1));
  EXPECT_THAT(calls.TakeStalled(then), IsEmpty()) << "once";
  EXPECT_EQ(calls.next_stall(), absl::InfiniteFuture());
  calls.Ended(1, absl::CancelledError("by us"), then);
  EXPECT_TRUE(calls.failure().ok());
  EXPECT_THAT(calls.TakeDue(calls.next_due()), ElementsAre(1));
  EXPECT_THAT(std::string(calls.DescribeWait().message()),
              HasSubstr("shard 0 at a:1"));
}

TEST(ShardCallsTest, ASlowCallMayTakeAsLongAsItMoves) {
  ShardCalls calls = TwoCalls();
  absl::Time now = kStart;
  calls.Asked(1, now);
  for (int i = 1; i <= 100; ++i) {
    now += 29 * kSecond;
    EXPECT_THAT(calls.TakeStalled(now), IsEmpty());
    i % 2 == 0 ? calls.Moved(1, now) : calls.Progressed(1, i, now);
  }
}

TEST(ShardCallsTest, ACallThatRestsDoesNotStall) {
  ShardCalls calls = TwoCalls();
  EXPECT_EQ(calls.next_stall(), absl::InfiniteFuture());
  calls.Progressed(1, 10, kStart);
  calls.Rested(1);
  EXPECT_THAT(calls.TakeStalled(kStart + 1000 * kSecond), IsEmpty());
  calls.Progressed(1, 20, kStart + 1000 * kSecond);
  EXPECT_THAT(calls.TakeStalled(kStart + 1029 * kSecond), IsEmpty());
  EXPECT_THAT(calls.TakeStalled(kStart + 1030 * kSecond), ElementsAre(1));
}

TEST(ShardCallsTest, WhatSucceededBeforeItsCancelHasSucceeded) {
  ShardCalls calls = TwoCalls();
  calls.Asked(1, kStart);
  ASSERT_THAT(calls.TakeStalled(kStart + 30 * kSecond), ElementsAre(1));
  calls.Ended(1, absl::OkStatus(), kStart + 30 * kSecond);
  calls.Ended(0, absl::OkStatus(), kStart + 30 * kSecond);
  EXPECT_TRUE(calls.succeeded());
}

// ---- Shards that cannot be reached ----

TEST(ShardCallsTest, TheShardThatIsNotReachedForLongestIsNamed) {
  for (const int first : {0, 1}) {
    const std::string names[] = {"shard 0 at a:1", "shard 1 at b:2"};
    ShardCalls calls = TwoCalls();
    EXPECT_FALSE(calls.unreached().has_value());
    calls.Ended(first, kRefused, kStart);
    calls.Ended(1 - first, kRefused, kStart + kSecond);
    ASSERT_TRUE(calls.unreached().has_value());
    EXPECT_EQ(calls.unreached()->name, names[first]);
    EXPECT_EQ(calls.unreached()->since, kStart);
    ASSERT_THAT(calls.TakeDue(calls.next_due()), ElementsAre(first));
    calls.Moved(first, kStart + 2 * kSecond);
    EXPECT_EQ(calls.unreached()->name, names[1 - first]);
  }
}

TEST(ShardCallsTest, AShardThatSendsBetweenItsBreaksIsNeverGivenUp) {
  ShardCalls calls = TwoCalls();
  absl::Time now = kStart;
  for (int i = 0; i < 100; ++i) {
    calls.Progressed(1, i, now);
    calls.Moved(1, now);
    now += 4 * kSecond;
    calls.Ended(1, kRefused, now);
    ASSERT_TRUE(calls.failure().ok()) << calls.failure();
    now = calls.next_due();
    ASSERT_THAT(calls.TakeDue(now), ElementsAre(1));
  }
}

TEST(ShardCallsTest, TimeInWhichNobodyDroveTheCallsDoesNotCount) {
  ShardCalls calls = TwoCalls();
  calls.Ended(1, kRefused, kStart);
  const absl::Time later = kStart + 60 * kSecond;
  ASSERT_THAT(calls.TakeDue(later), ElementsAre(1));
  calls.Ended(1, kRefused, later);
  EXPECT_TRUE(calls.failure().ok()) << calls.failure();
}

TEST(ShardCallsTest, TheFirstFailureIsKeptWithItsReasonAndTheShardsName) {
  ShardCalls calls = TwoCalls();
  const auto gone = [](absl::string_view message) {
    return WithReason(proto::ExchangeError::VERSION_GONE,
                      absl::AbortedError(message));
  };
  calls.Ended(1, gone("shard 1: version 3 is gone"), kStart);
  calls.Ended(0, absl::DataLossError(""), kStart);
  EXPECT_EQ(calls.failure(), gone("shard 1 at b:2: version 3 is gone"));
  EXPECT_TRUE(calls.idle());
  EXPECT_FALSE(calls.succeeded());
}

TEST(ShardCallsTest, AShardThatStaysAwayFailsTheCallAndIsNamed) {
  ShardCalls calls = TwoCalls();
  calls.Ended(1, kRefused, kStart);
  absl::Time now = kStart;
  while (calls.failure().ok()) {
    now = calls.next_due();
    ASSERT_THAT(calls.TakeDue(now), ElementsAre(1));
    calls.Ended(1, kRefused, now);
  }
  EXPECT_GE(now, kStart + absl::Seconds(5));
  EXPECT_EQ(calls.failure().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(AsksForRestart(calls.failure()));
  EXPECT_THAT(std::string(calls.failure().message()),
              HasSubstr("shard 1 at b:2: connection refused; not heard of for "
                        "5s (limits.partition_timeout_s)"));
}

TEST(ShardCallsTest, AWaitThatIsTooLongNamesTheShardAndItsLastWords) {
  ShardCalls calls = TwoCalls();
  calls.Ended(0, absl::OkStatus(), kStart);
  calls.Ended(1,
              WithReason(proto::ExchangeError::NOT_YET,
                         absl::UnavailableError("version 7")),
              kStart);
  const absl::Status status = calls.DescribeWait();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("shard 1 at b:2"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("version 7"));
}

}  // namespace
}  // namespace sluice

#include "worker/exchange/shard_calls.h"

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
  return ShardCalls({"shard 0 at a:1", "shard 1 at b:2"}, absl::Seconds(5));
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
  EXPECT_EQ(calls.repeated(), 1);
  calls.Ended(1, absl::OkStatus(), due);
  EXPECT_TRUE(calls.succeeded());
  EXPECT_TRUE(calls.failure().ok());
}

TEST(ShardCallsTest, ACallIsFarEnoughWhenItHasProgressedOrSucceeded) {
  ShardCalls calls = TwoCalls();
  EXPECT_TRUE(calls.reached({0, 0}));
  EXPECT_FALSE(calls.reached({1, 0}));
  calls.Progressed(0, 10);
  EXPECT_TRUE(calls.reached({10, 0}));
  EXPECT_FALSE(calls.reached({11, 0}));
  EXPECT_FALSE(calls.reached({10, 1}));
  calls.Ended(1, absl::OkStatus(), kStart);
  EXPECT_TRUE(calls.reached({10, 1}));
  EXPECT_THAT(calls.progress(), ElementsAre(10, 0));
}

TEST(ShardCallsTest, ACallThatIsRepeatedBeginsAtNothing) {
  ShardCalls calls = TwoCalls();
  calls.Progressed(1, 10);
  calls.Ended(1, kRefused, kStart);
  EXPECT_TRUE(calls.reached({0, 10}));
  ASSERT_THAT(calls.TakeDue(calls.next_due()), ElementsAre(1));
  EXPECT_FALSE(calls.reached({0, 10}));
  EXPECT_THAT(calls.progress(), ElementsAre(0, 0));
}

TEST(ShardCallsTest, TheFirstFailureIsKeptWithTheShardsName) {
  ShardCalls calls = TwoCalls();
  calls.Ended(1, absl::AbortedError("shard 1: VERSION_GONE 3"), kStart);
  calls.Ended(0, absl::CancelledError(""), kStart);
  EXPECT_EQ(calls.failure(),
            absl::AbortedError("shard 1 at b:2: VERSION_GONE 3"));
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
  EXPECT_THAT(std::string(calls.failure().message()),
              HasSubstr("shard 1 at b:2: connection refused"));
}

TEST(ShardCallsTest, AWaitThatIsTooLongNamesTheShardAndItsLastWords) {
  ShardCalls calls = TwoCalls();
  calls.Ended(0, absl::OkStatus(), kStart);
  calls.Ended(1, absl::UnavailableError("NOT_YET version 7"), kStart);
  const absl::Status status = calls.DescribeWait();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()), HasSubstr("shard 1 at b:2"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("NOT_YET version 7"));
}

}  // namespace
}  // namespace sluice

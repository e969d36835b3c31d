#include "worker/exchange/retry_policy.h"

#include "common/exchange_error.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

const absl::Time kStart = absl::UnixEpoch();
const absl::Status kNotYet =
    WithReason(proto::ExchangeError::NOT_YET, absl::UnavailableError("early"));
const absl::Status kRefused = absl::UnavailableError("connection refused");

TEST(RetryPolicyTest, AVersionThatIsNotYetThereIsAskedForWithoutEnd) {
  RetryPolicy retry(absl::Seconds(5));
  absl::Time now = kStart;
  for (int i = 0; i < 1000; ++i) {
    const auto again = retry.AfterFailure(kNotYet, now);
    ASSERT_TRUE(again.has_value());
    EXPECT_LE(*again - now, absl::Milliseconds(20));
    now += absl::Seconds(60);
  }
}

TEST(RetryPolicyTest, AnUnreachableShardIsTriedWithBackoffUntilTheTimeout) {
  RetryPolicy retry(absl::Seconds(5));
  absl::Time now = kStart;
  absl::Duration last = absl::ZeroDuration();
  int tries = 0;
  while (const auto again = retry.AfterFailure(kRefused, now)) {
    EXPECT_GE(*again - now, last);
    EXPECT_LE(*again - now, absl::Seconds(1));
    last = *again - now;
    now = *again;
    ASSERT_LT(++tries, 100);
  }
  EXPECT_GE(now - kStart, absl::Seconds(5));
  EXPECT_LE(now - kStart, absl::Seconds(6));
}

TEST(RetryPolicyTest, AShardThatAnsweredInBetweenGetsTheWholeTimeoutAgain) {
  RetryPolicy retry(absl::Seconds(5));
  EXPECT_TRUE(retry.AfterFailure(kRefused, kStart).has_value());
  const absl::Time later = kStart + absl::Seconds(6);
  EXPECT_TRUE(retry.AfterFailure(kNotYet, later).has_value());
  EXPECT_TRUE(retry.AfterFailure(kRefused, later).has_value());
}

TEST(RetryPolicyTest, AShardThatWasHeardOfInBetweenGetsItAgain) {
  RetryPolicy retry(absl::Seconds(5));
  absl::Time now = kStart;
  while (now < kStart + absl::Seconds(4)) {
    now = *retry.AfterFailure(kRefused, now);
  }
  EXPECT_EQ(retry.unreachable_since(), kStart);
  retry.Reached();
  EXPECT_EQ(retry.unreachable_since(), absl::InfiniteFuture());
  const absl::Time later = kStart + absl::Seconds(6);
  EXPECT_EQ(retry.AfterFailure(kRefused, later),
            later + absl::Milliseconds(20));
  EXPECT_EQ(retry.unreachable_since(), later);
}

TEST(RetryPolicyTest, TimeInWhichNobodyRepeatedTheCallDoesNotCount) {
  RetryPolicy retry(absl::Seconds(5));
  EXPECT_TRUE(retry.AfterFailure(kRefused, kStart).has_value());
  retry.LeftAlone(absl::Seconds(60));
  const absl::Time later = kStart + absl::Seconds(64);
  EXPECT_TRUE(retry.AfterFailure(kRefused, later).has_value());
  EXPECT_FALSE(
      retry.AfterFailure(kRefused, later + absl::Seconds(1)).has_value());
}

TEST(RetryPolicyTest, AShardThatIsSilentOrEndsTheCallCountsAsUnreachable) {
  for (const absl::Status& silent :
       {absl::DeadlineExceededError("no answer"), absl::CancelledError("")}) {
    RetryPolicy retry(absl::Seconds(5));
    EXPECT_TRUE(retry.AfterFailure(silent, kStart).has_value());
    EXPECT_FALSE(
        retry.AfterFailure(silent, kStart + absl::Seconds(5)).has_value());
  }
}

TEST(RetryPolicyTest, AVerdictIsNotAskedForTwice) {
  RetryPolicy retry(absl::Seconds(5));
  for (const absl::Status& status :
       {absl::AbortedError("gone"), absl::InvalidArgumentError("NaN"),
        absl::FailedPreconditionError("generation"),
        absl::DataLossError("checksum"),
        absl::PermissionDeniedError("grant")}) {
    EXPECT_FALSE(retry.AfterFailure(status, kStart).has_value()) << status;
  }
}

}  // namespace
}  // namespace sluice

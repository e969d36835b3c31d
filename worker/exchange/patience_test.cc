#include "worker/exchange/patience.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

const absl::Time kStart = absl::UnixEpoch();
const absl::Status kNotYet = absl::UnavailableError("NOT_YET version 7");
const absl::Status kRefused = absl::UnavailableError("connection refused");

TEST(PatienceTest, AVersionThatIsNotYetThereIsAskedForWithoutEnd) {
  Patience patience(absl::Seconds(5));
  absl::Time now = kStart;
  for (int i = 0; i < 1000; ++i) {
    const auto again = patience.AfterFailure(kNotYet, now);
    ASSERT_TRUE(again.has_value());
    EXPECT_LE(*again - now, absl::Milliseconds(20));
    now += absl::Seconds(60);
  }
}

TEST(PatienceTest, AnUnreachableShardIsTriedWithBackoffUntilTheTimeout) {
  Patience patience(absl::Seconds(5));
  absl::Time now = kStart;
  absl::Duration last = absl::ZeroDuration();
  int tries = 0;
  while (const auto again = patience.AfterFailure(kRefused, now)) {
    EXPECT_GE(*again - now, last);
    EXPECT_LE(*again - now, absl::Seconds(1));
    last = *again - now;
    now = *again;
    ASSERT_LT(++tries, 100);
  }
  EXPECT_GE(now - kStart, absl::Seconds(5));
  EXPECT_LE(now - kStart, absl::Seconds(6));
}

TEST(PatienceTest, AShardThatAnsweredInBetweenGetsTheWholeTimeoutAgain) {
  Patience patience(absl::Seconds(5));
  EXPECT_TRUE(patience.AfterFailure(kRefused, kStart).has_value());
  const absl::Time later = kStart + absl::Seconds(6);
  EXPECT_TRUE(patience.AfterFailure(kNotYet, later).has_value());
  EXPECT_TRUE(patience.AfterFailure(kRefused, later).has_value());
}

TEST(PatienceTest, AShardThatWasHeardOfInBetweenGetsItAgain) {
  Patience patience(absl::Seconds(5));
  absl::Time now = kStart;
  while (now < kStart + absl::Seconds(4)) {
    now = *patience.AfterFailure(kRefused, now);
  }
  EXPECT_EQ(patience.unreachable_since(), kStart);
  patience.Reached();
  EXPECT_EQ(patience.unreachable_since(), absl::InfiniteFuture());
  const absl::Time later = kStart + absl::Seconds(6);
  EXPECT_EQ(patience.AfterFailure(kRefused, later),
            later + absl::Milliseconds(20));
  EXPECT_EQ(patience.unreachable_since(), later);
}

TEST(PatienceTest, TimeInWhichNobodyRepeatedTheCallDoesNotCount) {
  Patience patience(absl::Seconds(5));
  EXPECT_TRUE(patience.AfterFailure(kRefused, kStart).has_value());
  patience.LeftAlone(absl::Seconds(60));
  const absl::Time later = kStart + absl::Seconds(64);
  EXPECT_TRUE(patience.AfterFailure(kRefused, later).has_value());
  EXPECT_FALSE(
      patience.AfterFailure(kRefused, later + absl::Seconds(1)).has_value());
}

TEST(PatienceTest, AShardThatIsSilentOrEndsTheCallCountsAsUnreachable) {
  for (const absl::Status& silent :
       {absl::DeadlineExceededError("no answer"), absl::CancelledError("")}) {
    Patience patience(absl::Seconds(5));
    EXPECT_TRUE(patience.AfterFailure(silent, kStart).has_value());
    EXPECT_FALSE(
        patience.AfterFailure(silent, kStart + absl::Seconds(5)).has_value());
  }
}

TEST(PatienceTest, AVerdictIsNotAskedForTwice) {
  Patience patience(absl::Seconds(5));
  for (const absl::Status& status :
       {absl::AbortedError("VERSION_GONE"), absl::InvalidArgumentError("NaN"),
        absl::FailedPreconditionError("generation"),
        absl::DataLossError("checksum"),
        absl::PermissionDeniedError("grant")}) {
    EXPECT_FALSE(patience.AfterFailure(status, kStart).has_value()) << status;
  }
}

}  // namespace
}  // namespace sluice

#include "common/files/storage_retry.h"

#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;

const absl::Time kStart = absl::UnixEpoch();
const absl::Status kCannot = absl::UnavailableError("f: cannot be read: EIO");

TEST(StorageRetryTest, PausesGrowUpToASecondAndEndWithTheTime) {
  StorageRetry retry(absl::Seconds(3), kStart);
  absl::Time now = kStart;
  std::vector<int64_t> pauses;
  while (const auto pause = retry.PauseAfter(kCannot, now)) {
    pauses.push_back(absl::ToInt64Milliseconds(*pause));
    now += *pause;
  }
  EXPECT_THAT(pauses, ElementsAre(50, 100, 200, 400, 800, 1000, 450));
  EXPECT_EQ(now, kStart + absl::Seconds(3)) << "the last try is at the end";
}

TEST(StorageRetryTest, WhatWasReadIsNotReadAgainHoweverWrongItIs) {
  StorageRetry retry(absl::Seconds(3), kStart);
  EXPECT_FALSE(retry.PauseAfter(absl::OkStatus(), kStart).has_value());
  EXPECT_FALSE(
      retry.PauseAfter(absl::DataLossError("checksum"), kStart).has_value());
  EXPECT_FALSE(
      retry.PauseAfter(absl::NotFoundError("none"), kStart).has_value());
}

class ReadWithRetriesTest : public ::testing::Test, public Clock {
 protected:
  absl::Time Now() override { return now_; }

  // Fails this often before it succeeds; may take at most three seconds.
  absl::StatusOr<std::string> Read(int failures) {
    return ReadWithRetries(
        absl::Seconds(3), this,
        [this](const absl::Status& why, absl::Duration pause) {
          EXPECT_EQ(why, kCannot);
          now_ += pause;
          return !stopped_;
        },
        [&]() -> absl::StatusOr<std::string> {
          if (tries_++ < failures) return kCannot;
          return "content";
        });
  }

  absl::Time now_ = kStart;
  bool stopped_ = false;
  int tries_ = 0;
};

TEST_F(ReadWithRetriesTest, TriesUntilItCanBeRead) {
  EXPECT_EQ(*Read(4), "content");
  EXPECT_EQ(tries_, 5);
  EXPECT_EQ(now_, kStart + absl::Milliseconds(750));
}

TEST_F(ReadWithRetriesTest, SaysWhatCannotBeReadAndForHowLongItWasTried) {
  EXPECT_EQ(Read(1000).status().ToString(),
            "UNAVAILABLE: f: cannot be read: EIO; tried for 3s "
            "(limits.storage_timeout_s)");
  EXPECT_EQ(now_, kStart + absl::Seconds(3));
}

TEST_F(ReadWithRetriesTest, WhoIsToldToStopTriesNoMore) {
  stopped_ = true;
  EXPECT_FALSE(Read(1000).ok());
  EXPECT_EQ(tries_, 1);
}

TEST(StoppablePauseTest, AStopEndsThePauseAndThoseThatFollow) {
  StoppablePause pause;
  EXPECT_TRUE(pause.For(absl::ZeroDuration()));
  std::thread waiting([&] { EXPECT_FALSE(pause.For(absl::Hours(1))); });
  pause.Stop();
  waiting.join();
  EXPECT_FALSE(pause.For(absl::Hours(1)));
}

}  // namespace
}  // namespace sluice

#include "ps_server/coordinator/core/awake_clock.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

const absl::Time kStart = absl::UnixEpoch();
const absl::Duration kTick = absl::Milliseconds(100);

TEST(AwakeClockTest, GoesWithTheTimeWhileTicksAreRegular) {
  AwakeClock clock(kTick, kStart);
  absl::Time now = kStart;
  for (int i = 0; i < 100; ++i) {
    now += kTick * (i % 2 == 0 ? 0.5 : 1.5);  // Regular enough.
    EXPECT_EQ(clock.Advance(now, true), now);
  }
}

TEST(AwakeClockTest, StandsStillDuringAPause) {
  AwakeClock clock(kTick, kStart);
  const absl::Time late = kStart + absl::Seconds(60);
  EXPECT_EQ(clock.Advance(late, true), kStart + kTick);
  EXPECT_EQ(clock.paused(), absl::Seconds(60) - kTick);
  EXPECT_EQ(clock.Advance(late + kTick, true), kStart + 2 * kTick);
}

TEST(AwakeClockTest, APauseShowsInTheFirstEventAfterIt) {
  AwakeClock clock(kTick, kStart);
  const absl::Time late = kStart + absl::Seconds(60);
  EXPECT_EQ(clock.Advance(late, false), kStart + kTick);
  EXPECT_EQ(clock.Advance(late, true), kStart + kTick);
}

TEST(AwakeClockTest, EventsBetweenTicksAreNoPause) {
  AwakeClock clock(kTick, kStart);
  for (int i = 1; i <= 3; ++i) {
    EXPECT_EQ(clock.Advance(kStart + i * kTick, false), kStart + i * kTick);
  }
}

TEST(AwakeClockTest, StandsStillWhateverArrivesMeanwhile) {
  AwakeClock clock(kTick, kStart);
  absl::Time now = kStart + kTick;
  EXPECT_EQ(clock.Advance(now, true), kStart + kTick);
  for (int i = 0; i < 100; ++i) {
    // The ticker may be late.
    clock.Advance(now + kTick / 2, false);
    now += kTick * (i % 2 == 0 ? 1 : 10);
    clock.Stand(now);
  }
  EXPECT_EQ(clock.paused(), now - (kStart + kTick));
  EXPECT_EQ(clock.Advance(now + kTick, true), kStart + 2 * kTick);
}

}  // namespace
}  // namespace sluice

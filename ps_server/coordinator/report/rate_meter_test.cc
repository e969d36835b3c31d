#include "ps_server/coordinator/report/rate_meter.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

const absl::Time kStart = absl::UnixEpoch();

JobState State(int64_t version) {
  JobState state;
  state.version = Version(version);
  state.counters.samples_applied = version * 64;
  return state;
}

TEST(RateMeterTest, ASingleStateHasNoRate) {
  RateMeter meter(absl::Seconds(5));
  EXPECT_EQ(meter.Update(State(10), kStart).updates_per_second, 0);
}

TEST(RateMeterTest, TheFirstStateOfARunHasTheRateSinceItsBegin) {
  JobState state = State(10);
  state.running = absl::Seconds(2);
  RateMeter from_the_begin(absl::Seconds(5));
  const Rates rates = from_the_begin.Update(state, kStart);
  EXPECT_EQ(rates.updates_per_second, 5);
  EXPECT_EQ(rates.samples_per_second, 320);
  state.recovery.emplace().restored = Version(8);
  RateMeter later(absl::Seconds(5));
  EXPECT_EQ(later.Update(state, kStart).updates_per_second, 0);
}

TEST(RateMeterTest, CountsUpdatesAndSamplesPerSecond) {
  RateMeter meter(absl::Seconds(5));
  meter.Update(State(10), kStart);
  const Rates rates = meter.Update(State(30), kStart + absl::Seconds(2));
  EXPECT_EQ(rates.updates_per_second, 10);
  EXPECT_EQ(rates.samples_per_second, 640);
}

TEST(RateMeterTest, WhatLiesBeforeTheWindowNoLongerCounts) {
  RateMeter meter(absl::Seconds(5));
  meter.Update(State(0), kStart);
  meter.Update(State(1000), kStart + absl::Seconds(1));
  EXPECT_EQ(
      meter.Update(State(1010), kStart + absl::Seconds(6)).updates_per_second,
      2);
}

TEST(RateMeterTest, TheRateOfSlowUpdatesIsThatOfSeveral) {
  RateMeter meter(absl::Seconds(5));
  meter.Update(State(0), kStart);
  for (int second = 1; second < 400; ++second) {
    const double rate =
        meter.Update(State(second / 8), kStart + absl::Seconds(second))
            .updates_per_second;
    if (second < 80) continue;
    EXPECT_NEAR(rate, 1. / 8, 1. / 80) << second;
  }
}

TEST(RateMeterTest, AStalledRunOfSlowUpdatesFallsToZero) {
  RateMeter meter(absl::Seconds(5));
  for (int second = 0; second < 80; ++second) {
    meter.Update(State(second / 8), kStart + absl::Seconds(second));
  }
  Rates rates;
  for (int second = 80; second < 400; ++second) {
    rates = meter.Update(State(9), kStart + absl::Seconds(second));
  }
  EXPECT_EQ(rates.updates_per_second, 0);
}

TEST(RateMeterTest, UpdatesThatAreLostAreNoRate) {
  RateMeter meter(absl::Seconds(5));
  meter.Update(State(100), kStart);
  meter.Update(State(104), kStart + absl::Seconds(1));
  const Rates lost = meter.Update(State(90), kStart + absl::Seconds(2));
  EXPECT_EQ(lost.updates_per_second, 0);
  EXPECT_EQ(lost.samples_per_second, 0);
  const Rates again = meter.Update(State(92), kStart + absl::Seconds(3));
  EXPECT_EQ(again.updates_per_second, 2);
}

TEST(RateMeterTest, AStalledRunFallsToZero) {
  RateMeter meter(absl::Seconds(5));
  meter.Update(State(0), kStart);
  for (int i = 1; i <= 6; ++i) {
    meter.Update(State(100), kStart + absl::Seconds(i));
  }
  EXPECT_EQ(
      meter.Update(State(100), kStart + absl::Seconds(7)).updates_per_second,
      0);
}

}  // namespace
}  // namespace sluice

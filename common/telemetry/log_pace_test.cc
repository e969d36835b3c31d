#include "common/telemetry/log_pace.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

const absl::Time kStart = absl::UnixEpoch();

TEST(LogPaceTest, OneLineInEveryTime) {
  LogPace pace(absl::Seconds(10));
  EXPECT_TRUE(pace.Due(kStart));
  EXPECT_FALSE(pace.Due(kStart));
  EXPECT_FALSE(pace.Due(kStart + absl::Seconds(9)));
  EXPECT_TRUE(pace.Due(kStart + absl::Seconds(10)));
  EXPECT_FALSE(pace.Due(kStart + absl::Seconds(19)));
}

TEST(LogPaceTest, AfterAPauseSomeAtOnce) {
  LogPace pace(absl::Seconds(1), /*burst=*/3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pace.Due(kStart)) << i;
  EXPECT_FALSE(pace.Due(kStart));
  EXPECT_TRUE(pace.Due(kStart + absl::Seconds(1)));
  EXPECT_FALSE(pace.Due(kStart + absl::Seconds(1)));
  const absl::Time later = kStart + absl::Seconds(100);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(pace.Due(later)) << i;
  EXPECT_FALSE(pace.Due(later));
}

}  // namespace
}  // namespace sluice

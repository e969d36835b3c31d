#include "ps_server/live/metrics_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

using testing::ElementsAre;

class MetricsHistoryTest : public testing::Test {
 protected:
  void Append(const std::string& text) {
    std::ofstream(path_, std::ios::app) << text;
  }
  void AppendPoint(int seconds, const std::string& more = "") {
    Append(absl::StrCat("{\"seconds\": ", seconds, ", \"loss\": 0.5", more,
                        ", \"k\": 1}\n"));
  }
  // The seconds of the points above `since`.
  static std::vector<int> SecondsIn(const MetricsHistory& history,
                                    int64_t since) {
    std::vector<int> seconds;
    for (const auto& point : history.Since(since)) {
      seconds.push_back(point["seconds"]);
    }
    return seconds;
  }

  const std::string path_ = absl::StrCat(
      testing::TempDir(), "/",
      testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(MetricsHistoryTest, FollowsAFileThatGrows) {
  MetricsHistory history(path_);
  history.Follow();
  EXPECT_TRUE(history.Since(0).empty());
  AppendPoint(1);
  AppendPoint(2, ", \"test_loss\": 0.25");
  Append("{\"seconds\": 3,");  // Half a line.
  history.Follow();
  EXPECT_THAT(SecondsIn(history, 0), ElementsAre(1, 2));
  EXPECT_EQ(history.Since(0)[1]["test_loss"], 0.25);
  EXPECT_FALSE(history.Since(0)[1].contains("k"));
  Append("\"loss\": 0.5}\n");
  history.Follow();
  EXPECT_THAT(SecondsIn(history, 2), ElementsAre(3));
}

TEST_F(MetricsHistoryTest, AnotherRunInTheSameFolderHasNoPointsOfTheFirst) {
  MetricsHistory history(path_);
  AppendPoint(1);
  AppendPoint(2);
  history.Follow();
  std::filesystem::remove(path_);
  AppendPoint(4);
  history.Follow();
  AppendPoint(5);
  history.Follow();
  EXPECT_THAT(SecondsIn(history, 0), ElementsAre(4, 5));
  // A browser that has the first run's gets the second's.
  EXPECT_THAT(SecondsIn(history, 2), ElementsAre(4, 5));
}

TEST_F(MetricsHistoryTest, PassesOverALineThatIsTooLong) {
  MetricsHistory history(path_);
  AppendPoint(1);
  Append(std::string(9 << 20, 'x') + "\n");
  AppendPoint(2);
  for (int i = 0; i < 4; ++i) history.Follow();
  EXPECT_THAT(SecondsIn(history, 0), ElementsAre(1, 2));
}

TEST_F(MetricsHistoryTest, LeavesOutWhatARecoveryRolledBack) {
  MetricsHistory history(path_);
  for (int seconds : {1, 2, 3, 2, 3}) AppendPoint(seconds);
  history.Follow();
  EXPECT_THAT(SecondsIn(history, 0), ElementsAre(1, 2, 2, 3));
  EXPECT_EQ(history.Since(0)[3]["n"], 5);
}

TEST_F(MetricsHistoryTest, HoldsABoundedNumberThatCoversTheRun) {
  MetricsHistory history(path_, /*most=*/10);
  for (int seconds = 0; seconds < 1000; ++seconds) {
    AppendPoint(seconds, seconds == 3 ? ", \"test_loss\": 0.25" : "");
  }
  history.Follow();
  const std::vector<int> seconds = SecondsIn(history, 0);
  EXPECT_LE(seconds.size(), 10);
  EXPECT_GE(seconds.size(), 5);
  EXPECT_EQ(seconds.front(), 0);
  EXPECT_THAT(seconds, testing::Contains(3));  // The evaluation.
  EXPECT_EQ(seconds.back(), 999);
}

TEST_F(MetricsHistoryTest, PassesOverWhatIsNoLineOfMetrics) {
  MetricsHistory history(path_);
  Append("garbage\n[1]\n{\"loss\": 1}\n{\"seconds\": \"x\"}\n\n");
  AppendPoint(1);
  history.Follow();
  EXPECT_THAT(SecondsIn(history, 0), ElementsAre(1));
}

}  // namespace
}  // namespace sluice

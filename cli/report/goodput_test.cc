#include "cli/report/goodput.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace sluice {
namespace {

using ::testing::HasSubstr;

Goodput TwoWorkers() {
  Goodput goodput;
  goodput.version = Version(12);
  goodput.generations = 2;
  goodput.workers = {{0, {.applied = 6, .cancelled = 1, .idle = 1}},
                     {3, {.applied = 1, .dropped = 1, .lost = 3, .idle = 3}}};
  return goodput;
}

TEST(GoodputReportTest, APersonSeesEveryWorkerAndTheSum) {
  EXPECT_EQ(DescribeGoodput(TwoWorkers()),
            "worker      seconds    applied  cancelled    dropped       lost "
            "unfinished       idle     absent\n"
            "0              8.00      75.0%      12.5%       0.0%       0.0%"
            "       0.0%      12.5%       0.0%\n"
            "3              8.00      12.5%       0.0%      12.5%      37.5%"
            "       0.0%      37.5%       0.0%\n"
            "all           16.00      43.8%       6.2%       6.2%      18.8%"
            "       0.0%      25.0%       0.0%\n"
            "goodput 43.8%: 7.00 of 16.00 worker-seconds are in the weights of "
            "version 12\n");
}

TEST(GoodputReportTest, TheShortFormNamesTheLargestCauseFirst) {
  EXPECT_EQ(GoodputInShort(TwoWorkers().Total()),
            "goodput 43.8% (idle 25.0%, lost 18.8%, cancelled 6.2%, dropped "
            "6.2%)");
  EXPECT_EQ(GoodputInShort({.applied = 5, .idle = 0.002}), "goodput 100.0%");
}

TEST(GoodputReportTest, AProgramReadsTheSame) {
  Goodput goodput = TwoWorkers();
  goodput.torn = {{.path = "run/commit_log", .offset = 4000, .bytes = 96}};
  const auto json = nlohmann::json::parse(GoodputJson(goodput));
  EXPECT_EQ(json["goodput"], 7.0 / 16);
  EXPECT_EQ(json["version"], 12);
  EXPECT_EQ(json["generations"], 2);
  EXPECT_EQ(json["worker_seconds"], 16);
  EXPECT_EQ(json["seconds"]["lost"], 3);
  EXPECT_EQ(json["workers"][1]["worker"], 3);
  EXPECT_EQ(json["workers"][1]["worker_seconds"], 8);
  EXPECT_EQ(json["workers"][1]["seconds"]["dropped"], 1);
  EXPECT_EQ(json["torn"][0]["bytes"], 96);
  EXPECT_THAT(DescribeGoodput(goodput), HasSubstr("the last 96 bytes"));
}

TEST(GoodputReportTest, ARunWithoutATaskHasNoTimeToDivide) {
  EXPECT_EQ(GoodputInShort({}), "");
  EXPECT_THAT(DescribeGoodput({}), HasSubstr("\nno worker has had a task\n"));
  EXPECT_TRUE(nlohmann::json::parse(GoodputJson({}))["goodput"].is_null());
}

}  // namespace
}  // namespace sluice

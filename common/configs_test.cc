// Every job in configs/ is valid and does what its name says.

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/strip.h"
#include "common/resolved_job.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("configs")) {
    if (entry.path().extension() == ".textproto") {
      names.push_back(entry.path().stem());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

class ConfigTest : public testing::TestWithParam<std::string> {};

TEST_P(ConfigTest, IsValidAndResolvesToItself) {
  const auto job = LoadJob("configs/" + GetParam() + ".textproto", {});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->job.name(), GetParam());
  const auto again = ParseJob(FormatJob(job->job), "resolved", {});
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(FormatJob(again->job), FormatJob(job->job));
  EXPECT_EQ(again->fingerprint, job->fingerprint);
}

TEST_P(ConfigTest, RunsUnderThePolicyThatItsNameEndsIn) {
  absl::string_view policy = GetParam();
  if (!absl::ConsumePrefix(&policy, "linear_regression_")) return;
  const auto job = LoadJob("configs/" + GetParam() + ".textproto", {});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(proto::Policy_Name(job->job.sync().policy()),
            absl::AsciiStrToUpper(policy));
}

INSTANTIATE_TEST_SUITE_P(All, ConfigTest, testing::ValuesIn(Names()),
                         [](const testing::TestParamInfo<std::string>& test) {
                           return test.param;
                         });

TEST(ConfigsTest, ThereIsAJobForEveryPolicyAndTheDemo) {
  const std::vector<std::string> names = Names();
  EXPECT_THAT(names, testing::Contains("fashion_mnist_lenet"));
  for (int p = proto::Policy_MIN + 1; p <= proto::Policy_MAX; ++p) {
    const std::string policy = proto::Policy_Name(p);
    EXPECT_THAT(names, testing::Contains("linear_regression_" +
                                         absl::AsciiStrToLower(policy)));
  }
}

TEST(ConfigsTest, TheDemoIsLeNetOnTwoShardsAndFourWorkers) {
  const auto job = LoadJob("configs/fashion_mnist_lenet.textproto", {});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->job.cluster().workers(), 4);
  EXPECT_EQ(job->job.cluster().shards(), 2);
  EXPECT_EQ(job->job.sync().policy(), proto::K_SYNC);
  EXPECT_EQ(job->job.sync().k(), 3);
  EXPECT_EQ(job->data.train_samples, 60000);
  EXPECT_EQ(job->data.test_samples, 10000);
  EXPECT_EQ(job->layout.size(), 61706);
}

}  // namespace
}  // namespace sluice

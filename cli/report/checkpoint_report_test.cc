#include "cli/report/checkpoint_report.h"

#include <nlohmann/json.hpp>

#include "common/formats/safetensors.h"
#include "gmock/gmock.h"
#include "ps_server/checkpoint/checkpoint_testing.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr CheckpointId kFirst{Generation(1), Version(10)};
constexpr CheckpointId kSecond{Generation(1), Version(20)};

class CheckpointReportTest : public CheckpointTest {
 protected:
  void SetUp() override {
    CheckpointTest::SetUp();
    FileOperations files;
    ASSERT_TRUE(Write(kFirst, &files).ok());
    ASSERT_TRUE(Write(kSecond, &files).ok());
  }
  std::vector<std::string> passed_over_;
};

TEST_F(CheckpointReportTest, ACheckpointsFolderAndARunsNewestAreFound) {
  const auto first =
      FindCheckpoint(CheckpointFolder(run_, kFirst), &passed_over_);
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->manifest().version(), 10);
  const auto newest = FindCheckpoint(run_, &passed_over_);
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_EQ(newest->manifest().version(), 20);
  EXPECT_THAT(passed_over_, IsEmpty());
}

TEST_F(CheckpointReportTest, OfARunTheDamagedAreNamedAndOfACheckpointRefused) {
  const std::string path = Path(kSecond, "shard-0.safetensors");
  std::string bytes = ReadBytes(path);
  bytes.back() ^= 1;
  WriteBytes(path, bytes);
  const auto newest = FindCheckpoint(run_, &passed_over_);
  ASSERT_TRUE(newest.ok()) << newest.status();
  EXPECT_EQ(newest->manifest().version(), 10);
  ASSERT_EQ(passed_over_.size(), 1);
  EXPECT_THAT(passed_over_[0], HasSubstr(path));
  EXPECT_EQ(FindCheckpoint(CheckpointFolder(run_, kSecond), &passed_over_)
                .status()
                .code(),
            absl::StatusCode::kDataLoss);
  EXPECT_THAT(
      std::string(
          FindCheckpoint(run_ + "/none", &passed_over_).status().message()),
      HasSubstr("none: is not there"));
}

TEST_F(CheckpointReportTest, WhatIsInItIsSaid) {
  const auto found = FindCheckpoint(run_, &passed_over_);
  ASSERT_TRUE(found.ok());
  EXPECT_THAT(DescribeCheckpoint(*found),
              AllOf(HasSubstr("version      20 of generation 1\n"),
                    HasSubstr("below number 3, and 5\n"),
                    HasSubstr("47 weights in 2 tensors"),
                    HasSubstr("arrays       weights, velocity\n"),
                    HasSubstr("  shard-1.safetensors  "),
                    HasSubstr("bytes, weights 16 to 47\n"),
                    HasSubstr("  fc.weight  (8, 5)\n")));
  const auto json = nlohmann::json::parse(CheckpointJson(*found));
  EXPECT_EQ(json.at("version"), 20);
  EXPECT_EQ(json.at("files").at(1).at("begin"), 16);
  EXPECT_EQ(json.at("tensors").at("fc.weight"), (std::vector<int>{8, 5}));
}

TEST_F(CheckpointReportTest, TheExportHasTheModelsTensors) {
  const auto found = FindCheckpoint(run_, &passed_over_);
  ASSERT_TRUE(found.ok());
  const std::string out = run_ + "/out.safetensors";
  ASSERT_TRUE(ExportWeights(*found, out).ok());
  const auto weights = ReadSafetensors(out, Layout());
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(*weights, Floats(0, kSecond));
}

}  // namespace
}  // namespace sluice

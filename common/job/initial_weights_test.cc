#include "common/job/initial_weights.h"

#include <numeric>

#include "absl/strings/str_cat.h"
#include "common/formats/safetensors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// 39 features and a bias make 40 weights.
ResolvedJob JobWith(const std::string& model, int features = 39) {
  const auto job = ParseJob(
      absl::StrCat("data { linear_regression { features: ", features,
                   " } } model { layer { name: \"fc\" dense { units: 1 } } ",
                   model, " } cluster { shards: 2 } stop { updates: 1 }"),
      "test", {});
  EXPECT_TRUE(job.ok()) << job.status();
  return *job;
}

class InitialWeightsTest : public ::testing::Test {
 protected:
  InitialWeightsTest() { std::iota(saved_.begin(), saved_.end(), 0.5f); }

  std::string FromFile() const {
    return absl::StrCat("init_from: \"", path_, "\"");
  }

  const std::string path_ =
      ::testing::TempDir() + "/initial_weights_test.safetensors";
  std::vector<float> saved_ = std::vector<float>(40);
};

TEST_F(InitialWeightsTest, WithoutAFileTheyAreTheInitializers) {
  const ResolvedJob job = JobWith("");
  const auto weights = InitialWeights::Open(job);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->Digest().value(), "");
  const ParameterRange range = job.layout.range(ShardId(1));
  EXPECT_EQ(weights->Read(range).value(), job.layout.InitialWeights(1, range));
}

TEST_F(InitialWeightsTest, FromAFileEveryShardReadsItsRange) {
  const ResolvedJob job = JobWith(FromFile());
  ASSERT_TRUE(WriteSafetensors(path_, job.layout, saved_).ok());
  const auto weights = InitialWeights::Open(job);
  ASSERT_TRUE(weights.ok()) << weights.status();
  for (int shard = 0; shard < 2; ++shard) {
    const ParameterRange range = job.layout.range(ShardId(shard));
    EXPECT_EQ(weights->Read(range).value(),
              std::vector<float>(saved_.begin() + range.begin,
                                 saved_.begin() + range.end));
  }
}

TEST_F(InitialWeightsTest, TheDigestTellsContentsApart) {
  const ResolvedJob job = JobWith(FromFile());
  ASSERT_TRUE(WriteSafetensors(path_, job.layout, saved_).ok());
  const std::string before = InitialWeights::Open(job)->Digest().value();
  EXPECT_THAT(before, StartsWith("sha256 "));
  EXPECT_EQ(InitialWeights::Open(job)->Digest().value(), before);
  saved_[39] += 1;
  ASSERT_TRUE(WriteSafetensors(path_, job.layout, saved_).ok());
  EXPECT_NE(InitialWeights::Open(job)->Digest().value(), before);
}

TEST_F(InitialWeightsTest, AnotherModelsFileIsRefusedNamingFieldAndTensor) {
  ASSERT_TRUE(WriteSafetensors(path_, JobWith("").layout, saved_).ok());
  const absl::Status status =
      InitialWeights::Open(JobWith(FromFile(), 38)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), StartsWith("model.init_from: "));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("fc.weight has shape (1, 39) in 156 bytes, expected "
                        "(1, 38) in 152"));
}

TEST_F(InitialWeightsTest, AMissingFileIsNamed) {
  const absl::Status status =
      InitialWeights::Open(JobWith("init_from: \"/no/weights\"")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/no/weights"));
}

}  // namespace
}  // namespace sluice

// Every job in configs/ is valid and does what its name says.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/formats/cifar_file.h"
#include "common/job/resolved_job.h"
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

// Loads the job. Jobs on CIFAR or text get a small file of that format, because
// the real files are not part of the tree.
absl::StatusOr<ResolvedJob> Load(const std::string& name) {
  std::vector<std::string> overrides;
  if (absl::StartsWith(name, "cifar")) {
    const std::string path = testing::TempDir() + "/cifar.bin";
    std::ofstream(path, std::ios::binary)
        << std::string(100 * (1 + kCifarImageBytes), '\0');
    overrides.push_back(absl::StrCat("data.cifar={train: \"", path,
                                     "\" test: \"", path, "\"}"));
  }
  if (absl::StartsWith(name, "text")) {
    const std::string path = testing::TempDir() + "/text";
    std::ofstream(path) << std::string(1000, 'a');
    overrides.push_back(
        absl::StrCat("data.text={train: \"", path, "\" test: \"", path, "\"}"));
  }
  return LoadJob("configs/" + name + ".textproto", overrides);
}

class ConfigTest : public testing::TestWithParam<std::string> {};

TEST_P(ConfigTest, IsValidAndResolvesToItself) {
  const auto job = Load(GetParam());
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
  const auto job = Load(GetParam());
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(proto::Policy_Name(job->job.sync().policy()),
            absl::AsciiStrToUpper(policy));
}

INSTANTIATE_TEST_SUITE_P(All, ConfigTest, testing::ValuesIn(Names()),
                         [](const testing::TestParamInfo<std::string>& test) {
                           return test.param;
                         });

// Parameter counts as in the literature, without running statistics. The
// residual networks' projections have no batch norm here, so they have 2
// weights fewer for each of their channels.
TEST(ConfigsTest, PublishedModelsHaveTheirPublishedSizes) {
  const std::map<std::string, int64_t> published = {
      {"cifar10_alexnet", 23'272'266},
      {"cifar10_resnet18", 11'173'962 - 2 * (128 + 256 + 512)},
      {"cifar10_resnet20", 272'474 - 2 * (32 + 64)},
      {"cifar10_vgg16", 14'724'042},
      {"synthetic_resnet50", 25'557'032 - 2 * (256 + 512 + 1024 + 2048)},
      // The tables; 12 F^2 weights, 9 F biases and 4 F norm weights for each
      // block; and the last norm.
      {"text_transformer",
       (256 + 128) * 128 + 3 * (12 * 128 * 128 + 13 * 128) + 2 * 128}};
  for (const auto& [name, weights] : published) {
    const auto job = Load(name);
    ASSERT_TRUE(job.ok()) << job.status();
    int64_t trained = 0;
    for (const TensorSpec& tensor : job->model.tensors) {
      if (!tensor.is_statistic()) trained += tensor.size;
    }
    EXPECT_EQ(trained, weights) << name;
  }
}

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

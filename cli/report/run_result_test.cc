#include "cli/report/run_result.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/log/commit_log_file.h"
#include "ps_server/coordinator/log/generations.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

// The text for a run whose summary has `members`.
std::string Described(const std::string& members) {
  std::ofstream(absl::StrCat(testing::TempDir(), "/summary.json"))
      << "{\"version\": 12, \"seconds\": 4, " << members << "}";
  const auto text = DescribeSummary(testing::TempDir());
  EXPECT_TRUE(text.ok()) << text.status();
  return text.value_or("");
}

TEST(RunResultTest, AnEvaluationIsDescribedByWhatItMeasured) {
  EXPECT_THAT(
      Described(
          R"("test_version": 12, "test_loss": 0.25, "test_accuracy": 0.5)"),
      StartsWith("test accuracy 0.5000 (whole test split, version 12)\n"
                 "test loss 0.25\n"));
}

// JSON has no NaN: the summary of a run that diverged has null.
TEST(RunResultTest, ATestLossThatIsNoNumberIsSaid) {
  EXPECT_THAT(Described(R"("test_version": 12, "test_loss": null)"),
              StartsWith("test loss NaN or infinite\n"));
}

TEST(RunResultTest, ARunThatWasNotEvaluatedSaysNothingOfTests) {
  EXPECT_THAT(Described(R"("test_version": null, "test_loss": null)"),
              Not(HasSubstr("test ")));
}

TEST(RunResultTest, WhyARunFailedComesFirst) {
  EXPECT_THAT(Described(R"("failure": "evaluator: it left")"),
              StartsWith("the run failed: evaluator: it left\n12 updates"));
}

TEST(RunResultTest, HowOftenARunBeganAgainIsSaid) {
  const std::string lost = R"(, "updates_lost": 3, "gradients": {"lost": 5})";
  EXPECT_THAT(
      Described(R"("generation": 2)" + lost),
      HasSubstr("\nbegun again 1 time: 3 updates and 5 gradients lost"));
  EXPECT_THAT(Described(R"("generation": 3)" + lost),
              HasSubstr("\nbegun again 2 times: 3 updates"));
  EXPECT_THAT(Described(R"("generation": 1)" + lost), Not(HasSubstr("again")));
}

TEST(RunResultTest, ASummaryThatDoesNotSayWhatARecoveryLostMeansNothing) {
  const std::string folder = absl::StrCat(testing::TempDir(), "/recovered");
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  proto::LogHeader header;
  header.set_generation(2);
  header.set_parent_generation(1);
  ASSERT_TRUE(
      CommitLogWriter::Create(CommitLogPath(folder, Generation(2)), header)
          .ok());
  std::ofstream(absl::StrCat(folder, "/summary.json"))
      << R"({"version": 1, "seconds": 1, "generation": 2})";
  const auto status = ReadFinishedStatus(folder);
  ASSERT_TRUE(status.ok()) << status.status();
  ASSERT_TRUE(status->has_recovery());
  EXPECT_EQ(status->recovery().updates_lost(), 0);
}

TEST(RunResultTest, OnlyARunThatEndedWellIsDone) {
  for (const std::string failure : {"", "worker 0 has left"}) {
    std::ofstream(absl::StrCat(testing::TempDir(), "/summary.json"))
        << R"({"version": 1, "seconds": 1, "failure": ")" << failure << R"("})";
    const auto status = ReadFinishedStatus(testing::TempDir());
    ASSERT_TRUE(status.ok()) << status.status();
    EXPECT_EQ(status->progress(), failure.empty() ? 1 : 0);
  }
}

TEST(RunResultTest, AJobsMostWorkersAreNoDamage) {
  std::ofstream(absl::StrCat(testing::TempDir(), "/summary.json"))
      << R"({"version": 1, "seconds": 1, "workers": 65536})";
  const auto status = ReadFinishedStatus(testing::TempDir());
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->worker_size(), 65536);
}

TEST(RunResultTest, AMemberThatCannotBeIsDamageAndNamed) {
  const std::string path = absl::StrCat(testing::TempDir(), "/summary.json");
  for (const auto& [text, damage] :
       std::vector<std::pair<std::string, std::string>>{
           {R"("version": "x", "seconds": 1)",
            "version is of type string, expected a count"},
           {R"("version": -1, "seconds": 1)",
            "version is of type number, expected a count"},
           {R"("version": 1)", "seconds is missing, expected a number"},
           {R"("version": 1, "seconds": 1, "workers": 0)",
            "workers is 0, expected 1 to 65536"},
           {R"("version": 1, "seconds": 1, "workers": 65537)",
            "workers is 65537, expected 1 to 65536"},
           {R"("version": 1, "seconds": 1, "name": 5)",
            "name is of type number, expected a text"},
           {R"("version": 1, "seconds": 1, "mean_staleness": "q")",
            "mean_staleness is of type string, expected a number"},
           {R"("version": 1, "seconds": 1, "gradients": [1])",
            "gradients is of type array, expected an object"},
           {R"("version": 1, "seconds": 1, "gradients": {"lost": {}})",
            "gradients.lost is of type object, expected a count"}}) {
    std::ofstream(path) << "{" << text << "}";
    for (const absl::Status& status :
         {ReadRunResult(testing::TempDir()).status(),
          ReadFinishedStatus(testing::TempDir()).status(),
          DescribeSummary(testing::TempDir()).status()}) {
      EXPECT_EQ(status, absl::DataLossError(
                            absl::StrCat(path, ": is damaged: ", damage)));
    }
  }
}

}  // namespace
}  // namespace sluice

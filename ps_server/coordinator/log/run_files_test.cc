#include "ps_server/coordinator/log/run_files.h"

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/log/generations.h"

namespace sluice {
namespace {

// Of `generation` of a run of its own.
absl::StatusOr<std::unique_ptr<RunFiles>> FilesOf(const std::string& run_dir,
                                                  int64_t generation = 1) {
  const auto job = ParseJob(R"pb(
                              cluster { workers: 1 shards: 1 }
                              sync { policy: SYNC }
                              optimizer {
                                learning_rate: 0.1
                                sgd {}
                              }
                              data { linear_regression { features: 1 } }
                              model { layer { dense { units: 1 } } }
                              stop { updates: 1 }
                            )pb",
                            "test.textproto", {});
  EXPECT_TRUE(job.ok()) << job.status();
  GenerationStart start;
  start.generation = Generation(generation);
  return RunFiles::Create(*job, start,
                          absl::StrCat(testing::TempDir(), "/", run_dir));
}

// The manifests' thread proves the run's claim, and the one that writes the
// summary does.
TEST(RunFilesTest, ProofsOfSeveralThreadsDoNotDisproveEachOther) {
  const auto files = *FilesOf("proofs");
  const auto prove = [&] {
    for (int i = 0; i < 1000; ++i) {
      const absl::Status proved = files->Prove();
      ASSERT_TRUE(proved.ok()) << proved;
    }
  };
  std::thread other(prove);
  prove();
  other.join();
}

// Two that recover a run at once.
TEST(RunFilesTest, OfTwoThatTakeAGenerationOneIsSuperseded) {
  const auto first = *FilesOf("two", 1);
  ASSERT_TRUE(FilesOf("two", 2).ok());
  const auto again = FilesOf("two", 2);
  EXPECT_TRUE(absl::IsPermissionDenied(again.status())) << again.status();
  EXPECT_TRUE(absl::IsPermissionDenied(first->Prove()));
}

// It stood still between finding the run and taking it.
TEST(RunFilesTest, WhoComesTooLateLeavesTheLaterGenerationsResults) {
  const auto first = *FilesOf("late", 1);
  const auto third = *FilesOf("late", 3);
  const std::string summary =
      absl::StrCat(testing::TempDir(), "/late/summary.json");
  std::ofstream(summary) << "{}";
  const auto second = FilesOf("late", 2);
  EXPECT_TRUE(absl::IsPermissionDenied(second.status())) << second.status();
  EXPECT_TRUE(std::filesystem::exists(summary));
  EXPECT_TRUE(third->Prove().ok());
}

// It hears of its own shards only after another has taken the run.
TEST(RunFilesTest, WhoIsSupersededLeavesTheAddressesOfTheOther) {
  const std::string path = absl::StrCat(testing::TempDir(), "/moved/addresses");
  const auto first = *FilesOf("moved", 1);
  ASSERT_TRUE(first->WriteAddresses("first").ok());
  const auto second = *FilesOf("moved", 2);
  ASSERT_TRUE(second->WriteAddresses("other").ok());
  const absl::Status late = first->WriteAddresses("first");
  EXPECT_TRUE(absl::IsPermissionDenied(late)) << late;
  std::string text;
  std::getline(std::ifstream(path), text);
  EXPECT_EQ(text, "other");
}

TEST(RunFilesTest, OnlyWhoComesToAnUpdateReplacesTheResultsOfAnEarlierEnd) {
  const std::string run_dir = absl::StrCat(testing::TempDir(), "/earlier");
  const auto first = *FilesOf("earlier", 1);
  std::ofstream(run_dir + "/summary.json") << "{}";
  std::ofstream(run_dir + "/weights.safetensors") << "w";
  const FinishRun failed{.failure = "other data", .reason = "failed"};
  const auto second = *FilesOf("earlier", 2);
  ASSERT_TRUE(second->Close(JobState(), failed).ok());
  EXPECT_EQ(std::filesystem::file_size(run_dir + "/summary.json"), 2);
  EXPECT_TRUE(std::filesystem::exists(run_dir + "/weights.safetensors"));
  const auto third = *FilesOf("earlier", 3);
  ASSERT_TRUE(third->GoesOn().ok());
  EXPECT_FALSE(std::filesystem::exists(run_dir + "/summary.json"));
  EXPECT_FALSE(std::filesystem::exists(run_dir + "/weights.safetensors"));
  ASSERT_TRUE(third->Close(JobState(), failed).ok());
  EXPECT_GT(std::filesystem::file_size(run_dir + "/summary.json"), 2);
}

// A lead that is started again before the farewell is over ends the run, too.
TEST(RunFilesTest, WhileARunThatWasStoppedEndsItsFolderSaysSo) {
  const std::string farewell =
      absl::StrCat(testing::TempDir(), "/stopped/", kFarewell);
  const auto files = *FilesOf("stopped", 1);
  JobState state;
  const FinishRun finish{.failure = "", .reason = "the end"};
  ASSERT_TRUE(files->WriteSummary(state, finish).ok());
  EXPECT_FALSE(std::filesystem::exists(farewell)) << "it has reached its end";
  state.stop_requested = "asked to";
  ASSERT_TRUE(
      files->WriteSummary(state, {.failure = "broke", .reason = ""}).ok());
  EXPECT_FALSE(std::filesystem::exists(farewell)) << "it has failed";
  ASSERT_TRUE(files->WriteSummary(state, finish).ok());
  EXPECT_TRUE(std::filesystem::exists(farewell));
  ASSERT_TRUE(files->Close(state, std::nullopt).ok());
  EXPECT_TRUE(std::filesystem::exists(farewell)) << "only the generation ends";
  ASSERT_TRUE(files->Close(state, finish).ok());
  EXPECT_FALSE(std::filesystem::exists(farewell));
}

TEST(RunFilesTest, ARunThatGoesOnHasNoFarewell) {
  const auto files = *FilesOf("on", 2);
  const std::string farewell =
      absl::StrCat(testing::TempDir(), "/on/", kFarewell);
  std::ofstream(farewell) << "";
  ASSERT_TRUE(files->GoesOn().ok());
  EXPECT_FALSE(std::filesystem::exists(farewell));
}

}  // namespace
}  // namespace sluice

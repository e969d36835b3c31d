#include "cli/run_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace sluice {
namespace {

// Each test has an empty working folder of its own.
class RunFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    const std::string folder =
        testing::TempDir() + "/" +
        testing::UnitTest::GetInstance()->current_test_info()->name();
    std::filesystem::remove_all(folder);
    std::filesystem::create_directories(folder);
    ASSERT_EQ(chdir(folder.c_str()), 0);
  }
};

TEST_F(RunFolderTest, TheFirstFreeNumberIsTaken) {
  EXPECT_EQ(*MakeRunFolder("", "lenet"), "runs/lenet-1");
  EXPECT_EQ(*MakeRunFolder("", "lenet"), "runs/lenet-2");
  EXPECT_EQ(*MakeRunFolder("", "other"), "runs/other-1");
}

TEST_F(RunFolderTest, ANameWithASlashStaysBelowRuns) {
  EXPECT_EQ(*MakeRunFolder("", "../a/b"), "runs/.._a_b-1");
}

TEST_F(RunFolderTest, TheWantedFolderIsMadeWithItsParents) {
  EXPECT_EQ(*MakeRunFolder("a/b/c", "lenet"), "a/b/c");
  EXPECT_TRUE(std::filesystem::is_directory("a/b/c"));
  // An empty one is not used yet.
  EXPECT_TRUE(MakeRunFolder("a/b/c", "lenet").ok());
}

TEST_F(RunFolderTest, AUsedFolderIsRefusedAndNamed) {
  ASSERT_TRUE(MakeRunFolder("used", "lenet").ok());
  std::ofstream("used/file") << "x";
  const auto again = MakeRunFolder("used", "lenet");
  EXPECT_EQ(again.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(again.status().message()),
              testing::HasSubstr("run folder used is not empty"));
}

TEST_F(RunFolderTest, AFileInTheWayIsNamedAndTheInputIsAtFault) {
  std::ofstream("file") << "x";
  const absl::Status refused = MakeRunFolder("file/run", "x").status();
  EXPECT_THAT(std::string(refused.message()), testing::HasSubstr("file/run"));
  EXPECT_EQ(ExitCodeOfRefusal(refused), 2);
}

TEST_F(RunFolderTest, WhereNobodyCanMakeOneTheMachineIsAtFault) {
  const absl::Status refused = MakeRunFolder("/proc/run", "x").status();
  EXPECT_THAT(std::string(refused.message()),
              testing::HasSubstr("making the run folder /proc/run: "));
  EXPECT_EQ(ExitCodeOfRefusal(refused), 1);
}

TEST_F(RunFolderTest, AFileIsSaidToBeNoFolder) {
  std::ofstream("file") << "x";
  const absl::Status file = CheckMayRead("file");
  EXPECT_EQ(file.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(file.message(), "file: is no folder");
  EXPECT_TRUE(CheckMayRead(".").ok());
  EXPECT_TRUE(CheckMayRead("localhost:1").ok());
}

TEST_F(RunFolderTest, TheTailIsTheLastLines) {
  std::ofstream("log") << "one\ntwo\nthree\n";
  EXPECT_EQ(TailOfFile("log", 2, "  "), "  two\n  three\n");
  EXPECT_EQ(TailOfFile("log", 9, ""), "one\ntwo\nthree\n");
  EXPECT_EQ(TailOfFile("none", 9, ""), "");
}

TEST_F(RunFolderTest, TheTextOfAFileIsAllFromTheOffsetOn) {
  std::ofstream("text") << "one" << '\0' << "two\n" << std::string(9000, 'x');
  const std::string all = TextOfFile("text").value_or("");
  EXPECT_EQ(all, std::string("one\0two\n", 8) + std::string(9000, 'x'));
  EXPECT_EQ(TextOfFile("text", 4), all.substr(4));
  EXPECT_EQ(TextOfFile("text", 9008), "");
  std::ofstream("empty").flush();
  EXPECT_EQ(TextOfFile("empty"), "");
}

// As a file in /proc, when its process ends between opening and reading.
TEST_F(RunFolderTest, WhatCanBeOpenedAndNotReadHasNoText) {
  std::filesystem::create_directory("folder");
  EXPECT_EQ(TextOfFile("folder"), std::nullopt);
  EXPECT_EQ(TextOfFile("/proc/self/mem"), std::nullopt);
  EXPECT_EQ(TextOfFile("none"), std::nullopt);
}

}  // namespace
}  // namespace sluice

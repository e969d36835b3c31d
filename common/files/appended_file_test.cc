#include "common/files/appended_file.h"

#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "common/process/process_setup.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(AppendedFileTest, WhatIsAppendedIsThereAtOnceBehindWhatWasThere) {
  const std::string path = testing::TempDir() + "/lines";
  std::ofstream(path) << "one\n";
  auto file = AppendedFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_TRUE(file->Append("two\n").ok());
  EXPECT_EQ(TextOf(path), "one\ntwo\n");
}

// As a disk that is full, and then has room again.
TEST(AppendedFileTest, AfterAnErrorNoPartOfItIsThere) {
  SetUpProcess();  // As in the daemons.
  const std::string path = testing::TempDir() + "/full";
  auto file = AppendedFile::Open(path);
  ASSERT_TRUE(file->Append("one\n").ok());
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit room = {10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &room), 0);
  // One of which a part has room, and one that is long.
  const absl::Status shorter = file->Append("2222222222\n");
  const absl::Status longer = file->Append(std::string(100000, '3') + "\n");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_EQ(shorter.message(), path + ": cannot be written: File too large");
  EXPECT_EQ(longer.message(), path + ": cannot be written: File too large");
  EXPECT_TRUE(file->Append("four\n").ok());
  EXPECT_EQ(TextOf(path), "one\nfour\n");
}

// As logrotate moves it away.
TEST(AppendedFileTest, AfterAnErrorNoPartIsThereThoughTheFileHasMoved) {
  SetUpProcess();
  const std::string path = testing::TempDir() + "/moved";
  auto file = AppendedFile::Open(path);
  ASSERT_TRUE(file->Append("one\n").ok());
  std::filesystem::rename(path, path + ".1");
  rlimit before = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit room = {10, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &room), 0);
  EXPECT_FALSE(file->Append("2222222222\n").ok());
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &before), 0);
  EXPECT_TRUE(file->Append("three\n").ok());
  EXPECT_EQ(TextOf(path + ".1"), "one\nthree\n");
  EXPECT_EQ(TextOf(path), "");
}

}  // namespace
}  // namespace sluice

#include "common/files/file_mode.h"

#include <sys/stat.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/files/file_operations.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(FileModeTest, AModeIsAnOctalNumberThatLetsTheOwnerReadAndWrite) {
  EXPECT_EQ(ParseFileMode("0600"), 0600);
  EXPECT_EQ(ParseFileMode("640"), 0640);
  EXPECT_EQ(ParseFileMode("0666"), 0666);
  for (const char* bad : {"", "0400", "0755", "rw", "0680", "600 ", "-600",
                          "01600", "0x180", "99999999999999"}) {
    EXPECT_FALSE(ParseFileMode(bad).has_value()) << bad;
  }
}

TEST(FileModeTest, FilesHaveItAndFoldersCanBeEnteredByWhoeverMayRead) {
  FileOperations files;
  const auto modes = [&](const std::string& mode) {
    LetRead(mode);
    const std::string folder = absl::StrCat(testing::TempDir(), "/mode", mode);
    std::filesystem::remove_all(folder);
    EXPECT_TRUE(files.MakeFolder(folder).ok());
    const auto file = files.Create(folder + "/file");
    EXPECT_TRUE(file.ok()) << file.status();
    EXPECT_TRUE(files.Close(*file, folder).ok());
    struct stat of_folder = {}, of_file = {};
    EXPECT_EQ(stat(folder.c_str(), &of_folder), 0);
    EXPECT_EQ(stat((folder + "/file").c_str(), &of_file), 0);
    return std::pair(of_folder.st_mode & 07777, of_file.st_mode & 07777);
  };
  EXPECT_EQ(modes("0600"), std::pair(0700u, 0600u));
  EXPECT_EQ(modes("0640"), std::pair(0750u, 0640u));
  EXPECT_EQ(modes("0666"), std::pair(0777u, 0666u));
  EXPECT_EQ(modes("0602"), std::pair(0702u, 0602u));
}

}  // namespace
}  // namespace sluice

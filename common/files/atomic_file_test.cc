#include "common/files/atomic_file.h"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::string Read(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// A fresh folder of this test alone.
std::string Folder() {
  const std::string folder =
      ::testing::TempDir() + "/" +
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

TEST(AtomicFileTest, ThePiecesFollowOneAnotherAndReplaceTheOldContent) {
  const std::string path = Folder() + "/file";
  ASSERT_TRUE(WriteFileAtomically(path, {"a much longer old content"}).ok());
  ASSERT_TRUE(WriteFileAtomically(path, {"ab", "", "cd"}).ok());
  EXPECT_EQ(Read(path), "abcd");
}

TEST(AtomicFileTest, NoTemporaryFileIsLeftBehind) {
  const std::string folder = Folder();
  ASSERT_TRUE(WriteFileAtomically(folder + "/file", {"new"}).ok());
  // A folder that is not empty cannot be replaced by a file.
  fs::create_directories(folder + "/taken/inside");
  EXPECT_FALSE(WriteFileAtomically(folder + "/taken", {"new"}).ok());
  int entries = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    (void)entry;
    ++entries;
  }
  EXPECT_EQ(entries, 2);
}

// In two containers both processes have the number 1.
TEST(AtomicFileTest, TwoWritersOfAPathDoNotTearTheFile) {
  const std::string path = Folder() + "/file";
  FileOperations* const files = FileOperations::Real();
  // The second begins and ends while the first is in the middle.
  int asked = 0;
  const auto next = [&]() -> absl::StatusOr<std::optional<absl::string_view>> {
    if (++asked == 2) {
      EXPECT_TRUE(WriteFileAtomically(path, {"the second's"}, files).ok());
      EXPECT_EQ(Read(path), "the second's");
    }
    if (asked == 3) return std::nullopt;
    return absl::string_view(asked == 1 ? "the first" : ", whole");
  };
  const absl::Status first = WriteFileAtomically(path, next, files);
  EXPECT_TRUE(first.ok()) << first;
  EXPECT_EQ(Read(path), "the first, whole");
}

TEST(AtomicFileTest, AFailureNamesTheFileAndTheOperation) {
  const absl::Status status = WriteFileAtomically("/nowhere/file", {"new"});
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/file"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("open"));
}

}  // namespace
}  // namespace sluice

#include "common/formats/tar_file.h"

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "common/testing/tar.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;

std::string PathFor(const std::string& name) {
  return testing::TempDir() + "/" + name;
}

std::string ReadAll(const std::string& path) {
  std::stringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

// What the walk finds, with the bytes that are where it says.
absl::StatusOr<FileMap> Read(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const InputFile file, InputFile::Open(path));
  FileMap found;
  SLUICE_RETURN_IF_ERROR(WalkTar(file, [&](TarMember member) {
    std::string& bytes = found[member.name];
    bytes.resize(member.bytes);
    return file.ReadAt(member.offset, member.bytes, bytes.data());
  }));
  return found;
}

FileMap InFolder(const FileMap& files) {
  FileMap named;
  for (const auto& [name, bytes] : files) named["./" + name] = bytes;
  return named;
}

class TarFormatTest : public testing::TestWithParam<const char*> {};

TEST_P(TarFormatTest, FilesAreFoundWithTheirBytes) {
  FileMap files = {{"a.jpg", std::string(513, 'a')},
                   {"b/c.cls", "7"},
                   {"empty", ""},
                   {"whole.jpg", std::string(1024, 'w')}};
  const std::string long_folder(90, 'f');
  files[long_folder + "/" + std::string(60, 'n') + ".jpg"] = "long";
  if (std::string(GetParam()) != "ustar") {
    files[std::string(230, 'n') + ".jpg"] = "longer";
  }
  const std::string path = PathFor(std::string(GetParam()) + ".tar");
  WriteTar(path, files, GetParam());
  const auto found = Read(path);
  ASSERT_TRUE(found.ok()) << found.status().message().data();
  EXPECT_EQ(*found, InFolder(files));
}

INSTANTIATE_TEST_SUITE_P(, TarFormatTest,
                         testing::Values("ustar", "gnu", "pax"),
                         [](const auto& info) { return info.param; });

TEST_P(TarFormatTest, LinksAndSparseFilesAreNotWholeAndFoldersPassedOver) {
  const std::string format = GetParam();
  if (format == "ustar") GTEST_SKIP() << "has neither";
  const std::string folder = PathFor("links");
  std::filesystem::remove_all(folder);
  WriteFiles(folder, {{"file", "bytes"}, {"folder/x", "x"}});
  std::filesystem::create_symlink("file", folder + "/link");
  std::filesystem::create_hard_link(folder + "/file", folder + "/second");
  WriteFiles(folder, {{"third", "bytes"}});
  std::filesystem::resize_file(folder + "/third", 1 << 20);
  const std::string far(150, 't');
  std::filesystem::create_symlink(far, folder + "/to " + far);
  const std::string archive = PathFor("links.tar");
  ASSERT_EQ(std::system(("tar cf " + archive +
                         " --sort=name --sparse --format=" + format + " -C " +
                         folder + " .")
                            .c_str()),
            0);
  const auto file = InputFile::Open(archive);
  ASSERT_TRUE(file.ok());
  std::map<std::string, bool> whole;
  ASSERT_TRUE(WalkTar(*file, [&](const TarMember& member) {
                whole[member.name] = member.whole;
                return absl::OkStatus();
              }).ok());
  EXPECT_THAT(whole,
              ElementsAre(Pair("./file", true), Pair("./folder/x", true),
                          Pair("./link", false), Pair("./second", false),
                          Pair("./third", false), Pair("./to " + far, false)));
}

TEST(TarFileTest, WhatIsNoArchiveOrIsCutIsRefusedWithThePosition) {
  const std::string archive = PathFor("whole.tar");
  WriteTar(archive, {{"a", std::string(2000, 'a')}, {"b", "b"}}, "ustar");
  const std::string whole = ReadAll(archive);
  const auto refused = [&](const std::string& bytes) {
    const std::string path = PathFor("damaged.tar");
    std::ofstream(path, std::ios::binary) << bytes;
    const absl::Status status = Read(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    return std::string(status.message());
  };
  EXPECT_THAT(refused(std::string(600, 'x')),
              HasSubstr("damaged.tar: at byte 0: expected a tar header"));
  EXPECT_THAT(refused("short"),
              HasSubstr("at byte 0: expected a tar header, or the zeros"));
  // The folder's header, that of a, and part of a.
  EXPECT_THAT(refused(whole.substr(0, 1500)),
              HasSubstr("at byte 512: a member of 2000 bytes begins, the "
                        "archive has 1500 bytes"));
  // The folder's header, a with its padding, b's header and none of the padding
  // behind its byte.
  EXPECT_THAT(refused(whole.substr(0, 512 + 512 + 2048)),
              HasSubstr("the file ends: it may be cut short"));
  EXPECT_THAT(refused(whole.substr(0, 512 + 512 + 2048 + 512 + 1)),
              HasSubstr("the file ends: it may be cut short"));
  std::string flipped = whole;
  flipped[512 + 124] ^= 1;  // In the size.
  EXPECT_THAT(refused(flipped),
              HasSubstr("at byte 512: expected a tar header"));
}

TEST(TarFileTest, WhatFollowsTheEndIsRefused) {
  const std::string archive = PathFor("ends.tar");
  WriteTar(archive, {{"a", "a"}});
  const std::string whole = ReadAll(archive);
  const auto with = [&](const std::string& rest) {
    const std::string path = PathFor("rest.tar");
    std::ofstream(path, std::ios::binary) << whole << rest;
    const auto found = Read(path);
    EXPECT_EQ(found.ok() || absl::IsDataLoss(found.status()), true);
    return std::string(found.status().message());
  };
  EXPECT_EQ(with(""), "");
  EXPECT_EQ(with(std::string(100 << 10, '\0')), "");
  EXPECT_THAT(with(whole),
              HasSubstr("expected zeros behind the archive's end"));
  EXPECT_THAT(with(std::string(2 << 20, '\0')),
              HasSubstr("bytes follow, expected at most 1048576"));
}

TEST(TarFileTest, TheWalkEndsWithTheErrorOfItsUser) {
  const std::string archive = PathFor("two.tar");
  WriteTar(archive, {{"a", ""}, {"b", ""}});
  const auto file = InputFile::Open(archive);
  int calls = 0;
  const absl::Status end = WalkTar(*file, [&](TarMember) {
    ++calls;
    return absl::InvalidArgumentError("enough");
  });
  EXPECT_EQ(end.message(), "enough");
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace sluice

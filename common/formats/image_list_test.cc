#include "common/formats/image_list.h"

#include <sys/fsuid.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "common/job/data_shape.h"
#include "common/status_macros.h"
#include "common/testing/tar.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ImageListTest : public testing::Test {
 protected:
  ImageListTest() : root_(testing::TempDir() + "/images") {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }

  std::string Folder(const std::string& name, const FileMap& files) {
    WriteFiles(root_ + "/" + name, files);
    return root_ + "/" + name;
  }
  std::string Tar(const std::string& name, const FileMap& files) {
    WriteTar(root_ + "/" + name, files);
    return root_ + "/" + name;
  }
  static std::vector<std::string> Described(const ImageList& list) {
    std::vector<std::string> all;
    for (int64_t i = 0; i < list.size(); ++i) {
      all.push_back(std::to_string(list.label(i)) + " " + *list.Bytes(i));
    }
    return all;
  }
  // As of training paths.
  static absl::StatusOr<ImageList> Read(const std::string& path) {
    SLUICE_ASSIGN_OR_RETURN(const std::vector<std::string> classes,
                            ImageList::ReadClasses({path}));
    return ImageList::Read({path}, classes);
  }
  static std::string Refusal(const std::string& path) {
    const auto list = Read(path);
    EXPECT_FALSE(list.ok());
    return std::string(list.status().message());
  }
  static std::string RefusalWith(const std::string& path,
                                 const std::vector<std::string>& classes) {
    const auto list = ImageList::Read({path}, classes);
    EXPECT_FALSE(list.ok());
    return std::string(list.status().message());
  }

  const std::string root_;
};

TEST_F(ImageListTest, ClassesAreFoldersInTheOrderOfTheirNames) {
  const std::string folder = Folder("train", {{"dog/2.JPEG", "d2"},
                                              {"dog/1.jpg", "d1"},
                                              {"cat/9.jpeg", "c9"},
                                              {"cat/notes.txt", ""},
                                              {".hidden/1.jpg", ""},
                                              {"README", ""}});
  const auto list = Read(folder);
  ASSERT_TRUE(list.ok()) << list.status().message().data();
  EXPECT_THAT(*ImageList::ReadClasses({folder}), ElementsAre("cat", "dog"));
  EXPECT_THAT(Described(*list), ElementsAre("0 c9", "1 d1", "1 d2"));
  EXPECT_EQ(list->PathOf(1), folder + "/dog/1.jpg");
}

TEST_F(ImageListTest, ATestFolderWithFewerClassesHasTheLabelsOfTraining) {
  const auto list =
      ImageList::Read({Folder("test", {{"dog/1.jpg", "d"}})}, {"cat", "dog"});
  ASSERT_TRUE(list.ok());
  EXPECT_EQ(list->label(0), 1);
  EXPECT_THAT(RefusalWith(Folder("other", {{"cow/1.jpg", ""}}), {"cat", "dog"}),
              HasSubstr("/other/cow: is no class of the first training folder, "
                        "which has 2 (cat to dog)"));
}

TEST_F(ImageListTest, ArchivesHaveSamplesOfMembersThatShareAName) {
  const std::string first = Tar("a-0.tar", {{"s0.cls", "3\n"},
                                            {"s0.jpg", "zero"},
                                            {"s0.json", "{}"},
                                            {"s1.cls", "1"},
                                            {"s1.jpg", "one"}});
  Tar("a-1.tar", {{"deep.er/s2.cls", "0"}, {"deep.er/s2.jpg", "two"}});
  const auto list = Read(root_);
  ASSERT_TRUE(list.ok()) << list.status().message().data();
  EXPECT_THAT(*ImageList::ReadClasses({root_}), IsEmpty());
  EXPECT_THAT(Described(*list), ElementsAre("3 zero", "1 one", "0 two"));
  EXPECT_EQ(list->PathOf(0), first + ": ./s0.jpg");
  const auto alone = Read(first);
  EXPECT_EQ(alone->size(), 2);
}

TEST_F(ImageListTest, ImagesMayLieInFoldersOfTheirClass) {
  const auto list = Read(Folder(
      "deep",
      {{"cat/1.jpg", "1"}, {"cat/b/2.jpg", "2"}, {"dog/a/b/3.jpg", "3"}}));
  ASSERT_TRUE(list.ok()) << list.status().message().data();
  EXPECT_THAT(Described(*list), ElementsAre("0 1", "0 2", "1 3"));
  EXPECT_THAT(list->PathOf(2), HasSubstr("/deep/dog/a/b/3.jpg"));
  std::filesystem::create_symlink("..", root_ + "/deep/dog/a/circle");
  EXPECT_THAT(Refusal(root_ + "/deep"),
              HasSubstr("expected at most 32 folders in each other"));
}

TEST_F(ImageListTest, WhatIsBesideAnImageInAnArchiveIsPassedOver) {
  const auto list = Read(Tar("beside.tar", {{"0.cls", "1"},
                                            {"0.jpg", "zero"},
                                            {"0.seg.png", "mask"},
                                            {"0.left.jpg", "another"},
                                            {"._0.jpg", "of macOS"},
                                            {"._0.cls", "of macOS"}}));
  ASSERT_TRUE(list.ok()) << list.status().message().data();
  EXPECT_THAT(Described(*list), ElementsAre("1 zero"));
}

TEST_F(ImageListTest, FoldersAndArchivesAreNotMixed) {
  const std::string folder = Folder("folders", {{"a/1.jpg", ""}});
  const std::string tar = Tar("archive.tar", {{"1.cls", "0"}, {"1.jpg", ""}});
  EXPECT_THAT(RefusalWith(tar, {"a"}),
              HasSubstr("archive.tar: has tar files, expected class folders as "
                        "the first training path"));
  EXPECT_THAT(RefusalWith(folder, {}),
              HasSubstr("/folders: has class folders, expected tar files"));
}

TEST_F(ImageListTest, ANameThatIsNoUtf8CanBeSaidAndRead) {
  const auto list = Read(Folder("odd", {{"a/\xff\n.jpg", "x"}}));
  ASSERT_TRUE(list.ok());
  EXPECT_THAT(list->PathOf(0), HasSubstr("/odd/a/\\xff\\n.jpg"));
  EXPECT_EQ(*list->Bytes(0), "x");
}

TEST_F(ImageListTest, TheDigestIsOfNamesAndLabelsInOrder) {
  const auto digest = [&](const std::string& folder) {
    return Read(folder)->Digest();
  };
  const std::string one = digest(Folder("one", {{"a/1.jpg", "x"}}));
  EXPECT_EQ(digest(Folder("two", {{"a/1.jpg", "y"}})), one);
  EXPECT_NE(digest(Folder("three", {{"a/2.jpg", "x"}})), one);
  EXPECT_NE(digest(Folder("four", {{"A/0.jpg", ""}, {"a/1.jpg", ""}})), one);
}

TEST_F(ImageListTest, ANameWithNewlinesHasADigestOfItsOwn) {
  const auto digest = [&](const std::string& folder, const FileMap& files) {
    return Read(Folder(folder, files))->Digest();
  };
  EXPECT_NE(digest("one", {{"a\nb/1.jpg", ""}, {"c/1.jpg", ""}}),
            digest("two", {{"a/1.jpg", ""}, {"b\nc/1.jpg", ""}}));
  EXPECT_NE(digest("three", {{"a/1.jpg\n0 2.jpg", ""}, {"a/3.jpg", ""}}),
            digest("four", {{"a/1.jpg", ""}, {"a/2.jpg\n0 3.jpg", ""}}));
}

TEST_F(ImageListTest, TheDigestOfOrdinaryNamesStays) {
  // Of the text "2 images of 2 class folders\na\nb\n0 1.jpg\n1 2 \".jpg\n".
  EXPECT_EQ(
      Read(Folder("ordinary", {{"a/1.jpg", ""}, {"b/2 \".jpg", ""}}))->Digest(),
      "315f7197753bfc147163c2f88bae9daa6ce77877fddf26202fb64f861acdef05");
}

TEST_F(ImageListTest, WhatIsNoTreeOfImagesIsRefusedByName) {
  EXPECT_EQ(Read(root_ + "/none").status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(Refusal(root_), HasSubstr("has 0 folders and 0 tar files"));
  EXPECT_THAT(Refusal(Folder("flat", {{"1.jpg", ""}})),
              HasSubstr("expected it in a folder named after its class"));
  EXPECT_THAT(Refusal(Folder("bare", {{"a/1.jpg", ""}, {"b/x.txt", ""}})),
              HasSubstr("/bare/b: has no .jpg or .jpeg file"));
  EXPECT_THAT(Refusal(Folder("png", {{"a/1.png", ""}})),
              HasSubstr("/png/a/1.png: expected .jpg or .jpeg, only JPEG"));
  EXPECT_THAT(Refusal(Tar("png.tar", {{"1.png", ""}, {"1.cls", "0"}})),
              HasSubstr("png.tar: ./1.png: expected .jpg"));
  EXPECT_THAT(Refusal(Tar("bare.tar", {{"1.jpg", ""}})),
              HasSubstr("bare.tar: ./1.jpg: expected ./1.cls, its label, "
                        "right before or behind it"));
  EXPECT_THAT(
      Refusal(Tar("two.tar", {{"1.CLS", "1"}, {"1.cls", "0"}, {"1.jpg", ""}})),
      HasSubstr("two.tar: ./1.cls: expected one label for ./1, this is"));
  EXPECT_THAT(Refusal(Tar("text.tar", {{"1.cls", "dog"}, {"1.jpg", ""}})),
              HasSubstr("text.tar: ./1.cls: expected a label"));
  EXPECT_THAT(
      Refusal(Tar("long.tar", {{"1.cls", std::string(31, '0') + "15"}})),
      HasSubstr("long.tar: ./1.cls: expected a label"));
  EXPECT_THAT(
      Refusal(Folder("packed", {{"0.tar", ""}, {"1.tar.gz", ""}})),
      HasSubstr("/packed/1.tar.gz: is compressed, expected a plain tar"));
  EXPECT_THAT(Refusal(Tar("none.tar", {{"1.cls", "0"}})),
              HasSubstr("none.tar: has no .jpg or .jpeg member"));
  const std::string dotted =
      "./1.b.jpg: expected a name with one dot, as NAME.jpg";
  EXPECT_THAT(
      Refusal(Tar(
          "dotted.tar",
          {{"0.jpg", ""}, {"0.cls", "0"}, {"1.b.jpg", ""}, {"1.b.cls", "0"}})),
      HasSubstr("dotted.tar: " + dotted));
  EXPECT_THAT(
      Refusal(Tar(
          "both.tar",
          {{"1.jpg", ""}, {"1.cls", "0"}, {"1.b.jpg", ""}, {"1.b.cls", "0"}})),
      HasSubstr("both.tar: " + dotted));
}

TEST_F(ImageListTest, ALinkInAnArchiveThatStandsForAPartOfASampleIsRefused) {
  const auto archive = [this](const std::string& link, bool hard) {
    const std::string path = root_ + "/linked.tar";
    const std::string folder = root_ + "/linked";
    std::filesystem::remove_all(folder);
    WriteFiles(folder, {{"1.cls", "0"}, {"1.jpg", "x"}});
    if (hard) {
      std::filesystem::create_hard_link(folder + "/1.jpg", folder + link);
    } else {
      std::filesystem::create_symlink("1.cls", folder + link);
    }
    EXPECT_EQ(
        std::system(
            ("tar cf " + path + " --sort=name -C " + folder + " .").c_str()),
        0);
    return path;
  };
  EXPECT_THAT(Refusal(archive("/2.jpg", true)),
              HasSubstr("linked.tar: ./2.jpg: expected a file, is a link"));
  EXPECT_THAT(Refusal(archive("/2.cls", false)),
              HasSubstr("linked.tar: ./2.cls: expected a file, is a link"));
  EXPECT_EQ(Read(archive("/2.json", false))->size(), 1);
}

TEST_F(ImageListTest, WhatIsNoFileInThePlaceOfAnImageIsRefusedByName) {
  const std::string fifo = Folder("fifo", {{"a/1.jpg", "x"}});
  ASSERT_EQ(mkfifo((fifo + "/a/2.jpg").c_str(), 0600), 0);
  EXPECT_THAT(Refusal(fifo), HasSubstr("/a/2.jpg: is no file"));
  EXPECT_THAT(Refusal(Folder("folder", {{"a/2.jpg/1.jpg", "x"}})),
              HasSubstr("/a/2.jpg: is no file"));
  const std::string link = Folder("link", {{"a/1.jpg", "x"}});
  std::filesystem::create_symlink("1.jpg", link + "/a/2.jpg");
  EXPECT_EQ(Read(link)->size(), 2);
  std::filesystem::create_symlink("nowhere", link + "/a/3.jpg");
  EXPECT_THAT(Refusal(link), HasSubstr("/a/3.jpg: is no file"));
}

TEST_F(ImageListTest, AnArchiveThatIsReplacedIsReadNoMore) {
  const std::string archive =
      Tar("replaced.tar", {{"1.jpg", "x"}, {"1.cls", "0"}});
  const auto list = Read(archive);
  ASSERT_TRUE(list->Bytes(0).ok());
  // Of the same layout, so that nothing else would tell.
  std::filesystem::rename(Tar("other.tar", {{"1.jpg", "y"}, {"1.cls", "1"}}),
                          archive);
  const auto bytes = list->Bytes(0);
  EXPECT_EQ(bytes.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(bytes.status().message()),
              HasSubstr("/replaced.tar: has been replaced or written to"));
}

// As a disk that fails: the job may be right, and be read at the next try.
TEST_F(ImageListTest, WhatTheSystemCannotSayIsNoMistakeInTheJob) {
  constexpr uid_t kNobody = 65534;  // Root may look into every folder.
  const std::string folder = Folder("locked/images", {{"a/1.jpg", "x"}});
  std::filesystem::permissions(root_ + "/locked", std::filesystem::perms::none);
  const int before = setfsuid(kNobody);
  const auto list = Read(folder);
  setfsuid(before);
  std::filesystem::permissions(root_ + "/locked",
                               std::filesystem::perms::owner_all);
  if (list.ok()) GTEST_SKIP() << "SKIPPED: this user may look into any folder";
  EXPECT_EQ(list.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(list.status().message()),
              HasSubstr("/locked/images: cannot be read: stat: "));
}

TEST_F(ImageListTest, AFileThatIsGoneIsNamed) {
  const std::string folder = Folder("gone", {{"a/1.jpg", "x"}});
  const auto list = Read(folder);
  std::filesystem::remove(folder + "/a/1.jpg");
  const auto bytes = list->Bytes(0);
  EXPECT_EQ(bytes.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(bytes.status().message()), HasSubstr("/a/1.jpg"));
}

TEST_F(ImageListTest, AJobsShapeIsThatOfItsLists) {
  proto::Data data;
  data.mutable_jpeg()->add_train(
      Folder("train", {{"a/1.jpg", ""}, {"b/1.jpg", ""}, {"b/2.jpg", ""}}));
  data.mutable_jpeg()->add_test(Folder("test", {{"b/1.jpg", ""}}));
  data.mutable_jpeg()->set_size(32);
  const auto shape = ReadDataShape(data);
  ASSERT_TRUE(shape.ok());
  EXPECT_EQ(shape->train_samples, 3);
  EXPECT_EQ(shape->test_samples, 1);
  EXPECT_THAT(shape->input_shape, ElementsAre(3, 32, 32));
  EXPECT_EQ(shape->classes, 2);
  EXPECT_THAT(shape->largest_label_at, HasSubstr("/train/b/1.jpg"));
}

TEST(DataShapeTest, AFormatSaysHowManyClassesThereAre) {
  proto::Data data;
  data.mutable_synthetic_images()->set_classes(20);
  EXPECT_EQ(ReadDataShape(data)->classes, 20);
  data.mutable_cifar()->set_classes(proto::Cifar::FINE);
  EXPECT_EQ(ReadDataShape(data)->classes, 100);
  data.mutable_cifar()->set_classes(proto::Cifar::CIFAR10);
  EXPECT_EQ(ReadDataShape(data)->classes, 10);
}

}  // namespace
}  // namespace sluice

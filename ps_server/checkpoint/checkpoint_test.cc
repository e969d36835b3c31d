#include "ps_server/checkpoint/checkpoint.h"

#include "common/formats/safetensors.h"
#include "common/process/process_name.h"
#include "gmock/gmock.h"
#include "ps_server/checkpoint/checkpoint_testing.h"
#include "ps_server/checkpoint/manifest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr CheckpointId kFirst{Generation(1), Version(10)};
constexpr CheckpointId kSecond{Generation(1), Version(20)};

TEST_F(CheckpointTest, AnyRangeOfAnyArrayIsReadBack) {
  FileOperations files;
  ASSERT_TRUE(Write(kFirst, &files).ok());
  const auto checkpoint = Checkpoint::Open(CheckpointFolder(run_, kFirst));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_TRUE(checkpoint->Verify().ok());
  for (int array = 0; array < kArrays.size(); ++array) {
    const std::vector<float> whole = Floats(array, kFirst);
    for (int64_t begin = 0; begin <= Layout().size(); ++begin) {
      for (int64_t end = begin; end <= Layout().size(); ++end) {
        const auto read = checkpoint->Read(kArrays[array], {begin, end});
        ASSERT_TRUE(read.ok()) << read.status();
        EXPECT_EQ(*read, std::vector<float>(whole.begin() + begin,
                                            whole.begin() + end));
      }
    }
  }
}

TEST_F(CheckpointTest, AShardsFileIsReadByWhoeverReadsSafetensors) {
  FileOperations files;
  ASSERT_TRUE(Write(kFirst, &files).ok());
  const ParameterRange range = Layout().range(ShardId(1));
  std::vector<TensorSpec> tensors(2);
  for (int i = 0; i < 2; ++i) {
    tensors[i].name = kArrays[i];
    tensors[i].shape = {range.size()};
  }
  const auto floats = ReadSafetensors(Path(kFirst, "shard-1.safetensors"),
                                      ParameterLayout(tensors, 1));
  ASSERT_TRUE(floats.ok()) << floats.status();
  EXPECT_EQ((*floats)[0], Floats(0, kFirst)[range.begin]);
  EXPECT_EQ(floats->back(), Floats(1, kFirst).back());
}

TEST_F(CheckpointTest, AManifestReadAndWrittenAgainHasEqualBytes) {
  FileOperations files;
  ASSERT_TRUE(Write(kFirst, &files).ok());
  const std::string bytes = ReadBytes(Path(kFirst, "manifest"));
  const auto manifest = DecodeManifest("manifest", bytes);
  ASSERT_TRUE(manifest.ok()) << manifest.status();
  EXPECT_EQ(EncodeManifest(*manifest), bytes);
  EXPECT_THAT(manifest->state().exception(), ElementsAre(5));
}

TEST_F(CheckpointTest, TheLayoutOfTheManifestIsTheModels) {
  proto::CheckpointManifest manifest;
  DescribeLayout(Layout(), &manifest);
  manifest.add_file();
  const ParameterLayout layout = LayoutOf(manifest);
  EXPECT_EQ(layout.size(), Layout().size());
  EXPECT_EQ(layout.tensors()[1].offset, Layout().tensors()[1].offset);
  // Reading with one shard instead of two changes nothing.
  EXPECT_EQ(LayoutFingerprint(layout), manifest.layout_fingerprint());
}

TEST_F(CheckpointTest, TheNewestIsOfTheLargestGenerationThenVersion) {
  FileOperations files;
  const CheckpointId later{Generation(2), Version(15)};
  for (const CheckpointId id : {kSecond, later, kFirst}) {
    ASSERT_TRUE(Write(id, &files).ok());
  }
  std::filesystem::create_directories(run_ + "/checkpoints/01-5");
  std::filesystem::create_directories(run_ + "/checkpoints/notes");
  EXPECT_EQ(*ListCheckpoints(run_),
            (std::vector<CheckpointId>{kFirst, kSecond, later}));
  const NewestCheckpoint newest = *OpenNewestCheckpoint(run_);
  ASSERT_TRUE(newest.checkpoint.has_value());
  EXPECT_EQ(newest.checkpoint->manifest().version(), 15);
  EXPECT_THAT(newest.refused, IsEmpty());
}

TEST_F(CheckpointTest, ADamagedOneIsNamedAndTheOneBeforeItUsed) {
  FileOperations files;
  ASSERT_TRUE(Write(kFirst, &files).ok());
  ASSERT_TRUE(Write(kSecond, &files).ok());
  const std::string path = Path(kSecond, "shard-1.safetensors");
  std::string bytes = ReadBytes(path);
  bytes.back() ^= 1;
  WriteBytes(path, bytes);
  const NewestCheckpoint newest = *OpenNewestCheckpoint(run_);
  ASSERT_TRUE(newest.checkpoint.has_value());
  EXPECT_EQ(newest.checkpoint->manifest().version(), 10);
  ASSERT_EQ(newest.refused.size(), 1);
  EXPECT_THAT(std::string(newest.refused[0].message()),
              HasSubstr(path + ": chunk 1 of velocity has the checksum"));
}

// Its path is one of another host: here it may be anything, or nobody's.
TEST_F(CheckpointTest, WhatIsOnADiskOfAnotherHostIsNoDamage) {
  FileOperations files;
  ASSERT_TRUE(Write(kFirst, &files).ok());
  const std::string folder = CheckpointFolder(run_, kFirst);
  auto manifest = Checkpoint::Open(folder)->manifest();
  WriteBytes(run_ + "/file", "");
  std::filesystem::create_directory(run_ + "/folder");
  for (const char* path : {"/missing", "/file/below", "/folder"}) {
    proto::CheckpointFile* own = manifest.mutable_file(1);
    own->set_path(run_ + path);
    own->set_host("elsewhere");
    const auto opened = Checkpoint::OfManifest(folder, manifest);
    ASSERT_TRUE(opened.ok()) << path << ": " << opened.status();
    EXPECT_TRUE(opened->IsHere(0));
    EXPECT_FALSE(opened->IsHere(1));
    const absl::Status read = opened->Read("weights", {16, 47}).status();
    EXPECT_EQ(read.code(), absl::StatusCode::kNotFound);
    EXPECT_THAT(std::string(read.message()),
                HasSubstr(std::string("elsewhere:") + run_ + path));
  }
  manifest.mutable_file(1)->set_host(HostName());
  EXPECT_FALSE(Checkpoint::OfManifest(folder, manifest).ok());
}

TEST_F(CheckpointTest, WithoutAWholeOneThereIsNone) {
  FileOperations files;
  EXPECT_FALSE(OpenNewestCheckpoint(run_)->checkpoint.has_value());
  ASSERT_TRUE(Write(kFirst, &files).ok());
  std::filesystem::remove(Path(kFirst, "manifest"));
  const NewestCheckpoint newest = *OpenNewestCheckpoint(run_);
  EXPECT_FALSE(newest.checkpoint.has_value());
  ASSERT_EQ(newest.refused.size(), 1);
  EXPECT_EQ(newest.refused[0].code(), absl::StatusCode::kNotFound);
}

TEST_F(CheckpointTest, ARemovedOneIsGoneAndTheOthersStay) {
  FileOperations files;
  ASSERT_TRUE(Write(kFirst, &files).ok());
  ASSERT_TRUE(Write(kSecond, &files).ok());
  WriteBytes(Path(kFirst, "shard-0.safetensors.tmp.1"), "left by a kill");
  for (int i = 0; i < 2; ++i) {  // The second time there is nothing to remove.
    EXPECT_TRUE(RemoveCheckpoint(run_, kFirst, &files).ok());
  }
  EXPECT_EQ(*ListCheckpoints(run_), std::vector<CheckpointId>{kSecond});
  EXPECT_TRUE(Examine(CheckpointFolder(run_, kSecond)).ok());
}

}  // namespace
}  // namespace sluice

#include "ps_server/coordinator/log/manifest_writer.h"

#include <filesystem>
#include <memory>

#include "common/testing/faulty_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/checkpoint/checkpoint.h"
#include "ps_server/checkpoint/manifest.h"
#include "ps_server/coordinator/core/training_snapshot.h"
#include "ps_server/decisions/event_conversion.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kFloats = 32;

ParameterLayout Layout() {
  TensorSpec tensor;
  tensor.name = "fc.weight";
  tensor.shape = {kFloats};
  return ParameterLayout({tensor}, 1);
}

// One shard, and one array.
class ManifestWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(run_);
    std::filesystem::create_directories(run_);
    log_ = *CommitLogWriter::Create(run_ + "/commit_log", {});
    Begin(&disk_);
  }
  void Begin(FileOperations* files,
             std::function<absl::Status()> prove = nullptr) {
    ManifestWriter::Options options;
    options.prove = std::move(prove);
    options.run_dir = run_;
    options.files = files;
    options.run.set_job("name: 'test'");
    options.run.set_job_fingerprint("of the job");
    DescribeLayout(Layout(), &options.run);
    options.run.add_array("weights");
    options.run.set_chunk_floats(16);
    writer_ = std::make_unique<ManifestWriter>(
        std::move(options), log_.get(),
        [this](Version version, const absl::Status& status) {
          answers_.emplace_back(version.value(), status);
        });
  }
  // Writes the shard's part, and says what it has to say of it.
  StoredPart Part(int64_t version) {
    const CheckpointId id{Generation(1), Version(version)};
    EXPECT_TRUE(MakeCheckpointFolder(run_, id, &disk_).ok());
    const std::vector<float> floats(kFloats, 1.5f);
    const std::vector<CheckpointArray> arrays = {
        {"weights",
         {absl::MakeConstSpan(floats).first(16),
          absl::MakeConstSpan(floats).last(16)}}};
    const ShardFileIdentity identity = {
        .job_fingerprint = "of the job",
        .layout_fingerprint = LayoutFingerprint(Layout()),
        .generation = id.generation,
        .version = id.version,
        .shard = ShardId(0),
        .shards = 1,
        .range = {0, kFloats},
        .chunk_floats = 16};
    const auto file =
        WriteShardFile(CheckpointFolder(run_, id), identity, arrays, &disk_);
    EXPECT_TRUE(file.ok()) << file.status();
    proto::Stored stored;
    *stored.mutable_file() = *file;
    return StoredPartFromProto(stored);
  }
  void AllStored(int64_t version) {
    auto snapshot = std::make_shared<TrainingSnapshot>();
    snapshot->totals.counters.samples_applied = 100 * version;
    writer_->CarryOut({StoreManifest{
        Generation(1), Version(version), {Part(version)}, snapshot}});
  }

  const std::string run_ =
      ::testing::TempDir() + "/" +
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  FileOperations disk_;
  std::unique_ptr<CommitLogWriter> log_;
  std::vector<std::pair<int64_t, absl::Status>> answers_;
  std::unique_ptr<ManifestWriter> writer_;
};

TEST_F(ManifestWriterTest, MakesACheckpointThatSaysWhereTheRunStood) {
  AllStored(2);
  writer_->Finish();
  EXPECT_THAT(answers_, ElementsAre(std::pair(2, absl::OkStatus())));
  const auto checkpoint =
      Checkpoint::Open(CheckpointFolder(run_, {Generation(1), Version(2)}));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_TRUE(checkpoint->Verify().ok());
  const proto::CheckpointManifest& manifest = checkpoint->manifest();
  EXPECT_EQ(manifest.job(), "name: 'test'");
  EXPECT_EQ(manifest.state().counters().at("samples"), 200);
}

TEST_F(ManifestWriterTest, AFileThatIsNotThereIsNamedAndNothingIsWritten) {
  auto snapshot = std::make_shared<TrainingSnapshot>();
  StoredPart part = Part(2);
  const std::string folder =
      CheckpointFolder(run_, {Generation(1), Version(2)});
  std::filesystem::remove(folder + "/" + part.file);
  writer_->CarryOut(
      {StoreManifest{Generation(1), Version(2), {part}, snapshot}});
  writer_->Finish();
  ASSERT_EQ(answers_.size(), 1);
  EXPECT_THAT(std::string(answers_[0].second.message()),
              HasSubstr("shard-0.safetensors"));
  EXPECT_THAT(std::string(answers_[0].second.message()),
              HasSubstr("one that all shards share"));
  EXPECT_FALSE(std::filesystem::exists(folder + "/manifest"));
}

TEST_F(ManifestWriterTest, PartsThatAreNotTheWholeVectorAreRefused) {
  StoredPart part = Part(2);
  part.begin = 16;
  writer_->CarryOut({StoreManifest{Generation(1),
                                   Version(2),
                                   {part},
                                   std::make_shared<TrainingSnapshot>()}});
  writer_->Finish();
  ASSERT_EQ(answers_.size(), 1);
  EXPECT_FALSE(answers_[0].second.ok());
}

TEST_F(ManifestWriterTest, ARefusalOfTheDiskIsReported) {
  writer_->Finish();
  FaultyFiles full(FaultyFiles::Fault::kRefused, 1);
  Begin(&full);
  AllStored(2);
  writer_->Finish();
  ASSERT_EQ(answers_.size(), 1);
  EXPECT_THAT(std::string(answers_[0].second.message()), HasSubstr("manifest"));
  writer_.reset();
}

// As one whose look for the next generation is answered from a cache goes on.
TEST_F(ManifestWriterTest, WhoNoLongerOwnsTheRunWritesAndRemovesNothing) {
  AllStored(2);
  writer_->Finish();
  answers_.clear();
  Begin(&disk_, [] { return absl::PermissionDeniedError("it is gone"); });
  AllStored(3);
  writer_->CarryOut({RemoveStored{Generation(1), Version(2)}});
  writer_->Finish();
  ASSERT_EQ(answers_.size(), 1);
  EXPECT_EQ(answers_[0].second.code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(std::filesystem::exists(
      CheckpointFolder(run_, {Generation(1), Version(2)}) + "/manifest"));
  EXPECT_FALSE(std::filesystem::exists(
      CheckpointFolder(run_, {Generation(1), Version(3)}) + "/manifest"));
  writer_.reset();
}

TEST_F(ManifestWriterTest, WhatIsToGoGoesInTurn) {
  AllStored(2);
  writer_->CarryOut({RemoveStored{Generation(1), Version(2)},
                     RemoveStored{Generation(1), Version(1)}});
  writer_->Finish();
  EXPECT_THAT(answers_, ElementsAre(std::pair(2, absl::OkStatus())));
  EXPECT_TRUE(ListCheckpoints(run_)->empty());
}

}  // namespace
}  // namespace sluice

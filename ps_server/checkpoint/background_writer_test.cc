#include "ps_server/checkpoint/background_writer.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/testing/faulty_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/checkpoint/checkpoint.h"
#include "ps_server/checkpoint/manifest.h"
#include "ps_server/shard/shard_testing.h"

namespace sluice {
namespace {

using ::sluice::testing::SmallLayout;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Far longer than writing two kilobytes takes.
constexpr absl::Duration kPatience = absl::Seconds(30);

// The system's files, but Create waits until it is allowed to go on.
class WaitingFiles : public FileOperations {
 public:
  absl::StatusOr<int> Create(const std::string &path) override {
    reached.Notify();
    if (!go_on.WaitForNotificationWithTimeout(kPatience)) {
      return absl::DeadlineExceededError("the test let nothing through");
    }
    return FileOperations::Create(path);
  }
  absl::Notification reached;
  absl::Notification go_on;
};

class BackgroundWriterTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(run_);
    std::filesystem::create_directories(run_);
    ASSERT_TRUE(shard_.Execute({1, testing::FirstRestore()}).ok());
  }

  ShardFileIdentity Identity() const {
    return {.job_fingerprint = "job",
            .layout_fingerprint = LayoutFingerprint(SmallLayout()),
            .generation = Generation(1),
            .version = shard_.version(),
            .shard = ShardId(0),
            .shards = 1,
            .range = {0, shard_.grid().floats()},
            .chunk_floats = shard_.grid().chunk_floats()};
  }
  // Orders a write. Its result is there when `done_` has been notified.
  absl::Status Order(BackgroundWriter *writer) {
    return writer->Write(Identity(), shard_.Hold(), [this](auto file) {
      file_ = std::move(file);
      done_.Notify();
    });
  }

  const std::string run_ =
      ::testing::TempDir() + "/" +
      ::testing::UnitTest::GetInstance()->current_test_info()->name();
  Shard shard_{testing::SmallOptions()};
  absl::Notification done_;
  absl::StatusOr<proto::CheckpointFile> file_;
};

TEST_F(BackgroundWriterTest, WhatAShardHeldIsReadBack) {
  FileOperations files;
  BackgroundWriter writer(run_, &files);
  ASSERT_TRUE(Order(&writer).ok());
  ASSERT_TRUE(done_.WaitForNotificationWithTimeout(kPatience));
  ASSERT_TRUE(file_.ok()) << file_.status();

  proto::CheckpointManifest manifest;
  DescribeLayout(SmallLayout(), &manifest);
  manifest.set_job_fingerprint("job");
  manifest.set_generation(1);
  manifest.add_array("weights");
  manifest.set_chunk_floats(shard_.grid().chunk_floats());
  *manifest.add_file() = *file_;
  const std::string folder = CheckpointFolder(run_, {Generation(1), {}});
  ASSERT_TRUE(WriteManifest(folder, manifest, &files).ok());
  const auto checkpoint = Checkpoint::Open(folder);
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  EXPECT_EQ(checkpoint->Read("weights", {0, 150}).value(),
            SmallLayout().InitialWeights(1, {0, 150}));
}

TEST_F(BackgroundWriterTest, OnADiskOfItsOwnWhatIsOlderThanKeptMakesRoomFirst) {
  const std::string own = run_ + "/disk";
  FileOperations files;
  for (const int version : {1, 2, 3}) {
    ASSERT_TRUE(files.MakeFolder(own).ok());
    ASSERT_TRUE(
        MakeCheckpointFolder(own, {Generation(1), Version(version)}, &files)
            .ok());
  }
  BackgroundWriter writer(run_, &files);
  const auto order = [&] {
    ShardFileIdentity identity = Identity();
    identity.version = Version(4);
    return writer.Write(
        std::move(identity), shard_.Hold(),
        [this](auto file) { file_ = std::move(file); },
        BackgroundWriter::OwnDisk{own, {Generation(1), Version(3)}});
  };
  // As if the disk were full: the file cannot be written.
  std::filesystem::create_directories(
      own + "/checkpoints/1-4/shard-0.safetensors/in the way");
  ASSERT_TRUE(order().ok());
  writer.Finish();
  EXPECT_FALSE(file_.ok());
  const auto there = ListCheckpoints(own);
  ASSERT_TRUE(there.ok()) << there.status();
  EXPECT_THAT(*there, ElementsAre(CheckpointId{Generation(1), Version(3)},
                                  CheckpointId{Generation(1), Version(4)}));
  std::filesystem::remove_all(own + "/checkpoints/1-4");
  ASSERT_TRUE(order().ok());
  writer.Finish();
  ASSERT_TRUE(file_.ok()) << file_.status();
  EXPECT_EQ(file_->path(), own + "/checkpoints/1-4/shard-0.safetensors");
  EXPECT_TRUE(std::filesystem::exists(file_->path()));
  EXPECT_NE(file_->host(), "");
}

TEST_F(BackgroundWriterTest, ASecondOneIsRefusedWhileTheFirstIsWritten) {
  WaitingFiles files;
  {
    BackgroundWriter writer(run_, &files);
    ASSERT_TRUE(Order(&writer).ok());
    ASSERT_TRUE(files.reached.WaitForNotificationWithTimeout(kPatience));
    EXPECT_EQ(Order(&writer).code(), absl::StatusCode::kResourceExhausted);
    files.go_on.Notify();
    writer.Finish();
    ASSERT_TRUE(done_.HasBeenNotified());
  }
  EXPECT_TRUE(file_.ok()) << file_.status();
}

// A disk that accepts a piece only when the test allows it.
class SlowDisk : public FileOperations {
 public:
  absl::Status Write(int file, const std::string &path,
                     absl::string_view data) override {
    absl::MutexLock lock(&mu_);
    ++asked_;
    mu_.Await(absl::Condition(this, &SlowDisk::MayGoOn));
    return FileOperations::Write(file, path, data);
  }
  void Allow(int writes) {
    absl::MutexLock lock(&mu_);
    allowed_ = writes;
  }
  bool AwaitAsked(int writes) {
    absl::MutexLock lock(&mu_);
    awaited_ = writes;
    return mu_.AwaitWithTimeout(absl::Condition(this, &SlowDisk::HasAsked),
                                kPatience);
  }
  int asked() {
    absl::MutexLock lock(&mu_);
    return asked_;
  }

 private:
  bool MayGoOn() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return asked_ <= allowed_;
  }
  bool HasAsked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return asked_ >= awaited_;
  }

  absl::Mutex mu_;
  int asked_ ABSL_GUARDED_BY(mu_) = 0;
  int allowed_ ABSL_GUARDED_BY(mu_) = 0;
  int awaited_ ABSL_GUARDED_BY(mu_) = 0;
};

TEST_F(BackgroundWriterTest, ItsEndWaitsForOnePieceAndNotForTheRest) {
  SlowDisk disk;
  auto writer = std::make_unique<BackgroundWriter>(run_, &disk);
  ASSERT_TRUE(Order(writer.get()).ok());
  ASSERT_TRUE(disk.AwaitAsked(1));
  writer->Cancel();
  disk.Allow(1);
  writer.reset();
  EXPECT_EQ(disk.asked(), 1);
  ASSERT_TRUE(done_.HasBeenNotified());
  EXPECT_EQ(file_.status().code(), absl::StatusCode::kCancelled);
  // Nothing is left that would have to be removed.
  for (const auto &entry :
       std::filesystem::recursive_directory_iterator(run_)) {
    EXPECT_TRUE(entry.is_directory()) << entry.path();
  }
}

TEST_F(BackgroundWriterTest, NoFsyncHasToWaitForALargeFile) {
  class CountingDisk : public FileOperations {
   public:
    absl::Status Write(int, const std::string &,
                       absl::string_view data) override {
      most_ = std::max(most_, unsynced_ += data.size());
      return absl::OkStatus();
    }
    absl::Status Sync(int, const std::string &) override {
      unsynced_ = 0;
      return absl::OkStatus();
    }
    size_t most_ = 0, unsynced_ = 0;
  };
  CountingDisk disk;
  CancellableFiles files(&disk);
  const std::string piece(4 << 20, 'x');
  const int file = *files.Create(run_ + "/large");
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(files.Write(file, "large", piece).ok());
  }
  EXPECT_EQ(disk.most_, CancellableFiles::kBytesAtOnce);
  files.Close(file, "large").IgnoreError();
}

TEST_F(BackgroundWriterTest, ARefusalOfTheDiskIsReportedAndNamed) {
  FaultyFiles files(FaultyFiles::Fault::kRefused, 5);
  BackgroundWriter writer(run_, &files);
  ASSERT_TRUE(Order(&writer).ok());
  ASSERT_TRUE(done_.WaitForNotificationWithTimeout(kPatience));
  EXPECT_EQ(file_.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(file_.status().message()),
              HasSubstr("shard-0.safetensors"));
}

}  // namespace
}  // namespace sluice

#include "ps_server/checkpoint/background_writer.h"

#include <filesystem>

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
using ::testing::HasSubstr;

// Long beyond what writing two kilobytes takes.
constexpr absl::Duration kPatience = absl::Seconds(30);

// The system's files, which wait in Create until they are let through.
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
  // Orders it; what came of it is there when `done_` has been notified.
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

TEST_F(BackgroundWriterTest, ASecondOneIsRefusedWhileTheFirstIsWritten) {
  WaitingFiles files;
  {
    BackgroundWriter writer(run_, &files);
    ASSERT_TRUE(Order(&writer).ok());
    ASSERT_TRUE(files.reached.WaitForNotificationWithTimeout(kPatience));
    EXPECT_EQ(Order(&writer).code(), absl::StatusCode::kResourceExhausted);
    files.go_on.Notify();
  }
  // Its end waited for the first one.
  ASSERT_TRUE(done_.HasBeenNotified());
  EXPECT_TRUE(file_.ok()) << file_.status();
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

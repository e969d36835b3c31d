#include "ps_server/live/task_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/log/commit_log_file.h"

namespace sluice {
namespace {

using nlohmann::json;
using testing::HasSubstr;

proto::LogRecord Task(double at, int64_t worker, int64_t sequence) {
  proto::LogRecord record;
  record.set_seconds(at);
  record.mutable_task()->set_worker(worker);
  record.mutable_task()->set_incarnation(1);
  record.mutable_task()->set_sequence(sequence);
  return record;
}

// The gradient of a task makes a version.
proto::LogRecord Commit(double at, int64_t version, int64_t worker,
                        int64_t sequence) {
  proto::LogRecord record;
  record.set_seconds(at);
  record.mutable_commit()->set_version(version);
  proto::LogEntry* entry = record.mutable_commit()->add_entry();
  entry->set_worker(worker);
  entry->set_incarnation(1);
  entry->set_sequence(sequence);
  return record;
}

class TaskHistoryTest : public testing::Test {
 protected:
  TaskHistoryTest()
      : run_(absl::StrCat(
            testing::TempDir(), "/",
            testing::UnitTest::GetInstance()->current_test_info()->name())) {
    std::filesystem::remove_all(run_);
    std::filesystem::create_directory(run_);
  }
  void Begin(int64_t generation, int64_t parent = 0, int64_t restored = 0) {
    proto::LogHeader header;
    header.set_generation(generation);
    header.set_parent_generation(parent);
    header.set_restored_version(restored);
    header.set_shards(1);
    auto log = CommitLogWriter::Create(
        generation == 1 ? run_ + "/commit_log"
                        : absl::StrCat(run_, "/commit_log-", generation),
        header);
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
  }
  void Append(const std::vector<proto::LogRecord>& records) {
    ASSERT_TRUE(log_->Append(records).ok());
  }
  json Followed(int64_t most_bytes = 4 << 20) {
    history_.Follow(most_bytes);
    return history_.Json();
  }

  const std::string run_;
  std::unique_ptr<CommitLogWriter> log_;
  TaskHistory history_{run_};
};

TEST_F(TaskHistoryTest, ShowsWhatHasBeenAppendedSince) {
  EXPECT_TRUE(Followed()["goodput"].is_null());
  Begin(1);
  Append({Task(1, 0, 1)});
  EXPECT_EQ(Followed()["worker"][0]["tasks"].dump(), R"([[1.0,null,""]])");
  Append({Commit(3, 1, 0, 1), Task(4, 0, 2), Task(4, 3, 1)});
  const json state = Followed();
  EXPECT_EQ(state["now"], 4);
  EXPECT_EQ(state["goodput"], 2.0 / 3);
  EXPECT_EQ(state["seconds"]["idle"], 1);
  EXPECT_EQ(state["worker"][0]["seconds"]["applied"], 2);
  EXPECT_EQ(state["worker"][0]["tasks"].dump(),
            R"([[1.0,3.0,"applied"],[4.0,null,""]])");
  EXPECT_EQ(state["worker"][1]["id"], 3);
  EXPECT_EQ(state["behind_bytes"], 0);
  EXPECT_TRUE(state["problem"].is_null());
}

TEST_F(TaskHistoryTest, FollowsALogFromFileToFile) {
  Begin(1);
  Append({Task(1, 0, 1), Commit(3, 1, 0, 1)});
  Followed();
  ASSERT_TRUE(log_->Cut(Version(1)).ok());
  Append({Task(3, 0, 2), Commit(8, 2, 0, 2)});
  ASSERT_TRUE(log_->Cut(Version(2)).ok());
  EXPECT_EQ(Followed()["seconds"]["applied"], 7);
}

TEST_F(TaskHistoryTest, WhatANewGenerationDoesNotGoOnFromIsLost) {
  Begin(1);
  Append(
      {Task(0, 0, 1), Commit(1, 1, 0, 1), Task(1, 0, 2), Commit(3, 2, 0, 2)});
  EXPECT_EQ(Followed()["seconds"]["applied"], 3);
  Begin(2, /*parent=*/1, /*restored=*/1);
  Append({Task(0, 0, 1), Commit(4, 2, 0, 1)});
  const json state = Followed();
  EXPECT_EQ(state["seconds"]["applied"], 1 + 4);
  EXPECT_EQ(state["seconds"]["lost"], 2);
  EXPECT_EQ(state["worker"][0]["tasks"].size(), 1) << "of this generation";
}

TEST_F(TaskHistoryTest, ALongLogIsReadInPieces) {
  Begin(1);
  for (int i = 1; i <= 200; ++i) Append({Task(i, 0, i), Commit(i, i, 0, i)});
  int64_t behind = Followed(1000)["behind_bytes"];
  EXPECT_GT(behind, 1000);
  for (int looks = 0; behind > 0; ++looks) {
    ASSERT_LT(looks, 100);
    behind = Followed(1000)["behind_bytes"];
  }
  const json state = Followed();
  EXPECT_EQ(state["now"], 200);
  EXPECT_EQ(state["worker"][0]["tasks"].size(), 31) << "the last ones";
}

TEST_F(TaskHistoryTest, HalfARecordIsReadOnceItIsWhole) {
  Begin(1);
  Append({Task(1, 0, 1)});
  const std::string path = log_->path();
  const auto whole = std::filesystem::file_size(path);
  Append({Commit(3, 1, 0, 1)});
  std::string bytes(std::filesystem::file_size(path), '\0');
  std::ifstream(path, std::ios::binary)
      .read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  std::filesystem::resize_file(path, whole + 5);
  EXPECT_EQ(Followed()["now"], 1);
  std::ofstream(path, std::ios::binary) << bytes;
  EXPECT_EQ(Followed()["now"], 3);
}

TEST_F(TaskHistoryTest, ADamagedLogIsNamedAndWhatCameBeforeStays) {
  Begin(1);
  Append({Task(1, 0, 1)});
  Followed();
  const auto damaged = std::filesystem::file_size(log_->path());
  Append({Commit(3, 1, 0, 1), Task(4, 0, 2)});
  std::fstream(log_->path(), std::ios::binary | std::ios::in | std::ios::out)
      .seekp(static_cast<std::streamoff>(damaged) + 20)
      .put('\xff');
  const json state = Followed();
  EXPECT_THAT(state["problem"].get<std::string>(), HasSubstr("is damaged"));
  EXPECT_EQ(state["worker"][0]["tasks"].size(), 1);
}

}  // namespace
}  // namespace sluice

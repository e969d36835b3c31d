#include "ps_server/coordinator/generations.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class GenerationsTest : public ::testing::Test {
 protected:
  GenerationsTest() {
    std::filesystem::remove_all(run_);
    std::filesystem::create_directories(run_);
  }

  // A generation that goes on from `restored` of `parent`: each version is one
  // task of worker 0, half a second after its issue; then, at `open`, one more
  // task that does not end.
  void Write(int64_t generation, int64_t parent, int64_t restored, int64_t last,
             bool open) const {
    proto::LogHeader header;
    header.set_generation(generation);
    header.set_parent_generation(parent);
    header.set_restored_version(restored);
    auto log = CommitLogWriter::Create(
        CommitLogPath(run_, Generation(generation)), header);
    ASSERT_TRUE(log.ok()) << log.status();
    double seconds = 0;
    for (int64_t version = restored + 1; version <= last; ++version) {
      ASSERT_TRUE((*log)->Append({TaskAt(++seconds, version - restored)}).ok());
      proto::LogRecord commit;
      commit.set_seconds(seconds + 0.5);
      commit.mutable_commit()->set_version(version);
      proto::LogEntry* entry = commit.mutable_commit()->add_entry();
      entry->set_incarnation(1);
      entry->set_sequence(version - restored);
      ASSERT_TRUE((*log)->Append({commit}).ok());
    }
    if (!open) return;
    ASSERT_TRUE(
        (*log)->Append({TaskAt(seconds + 1, last - restored + 1)}).ok());
  }

  static proto::LogRecord TaskAt(double seconds, int64_t sequence) {
    proto::LogRecord record;
    record.set_seconds(seconds);
    record.mutable_task()->set_incarnation(1);
    record.mutable_task()->set_sequence(sequence);
    return record;
  }

  static std::vector<int64_t> VersionsOf(const CommitLog& log) {
    std::vector<int64_t> versions;
    for (const proto::LogRecord& record : log.records) {
      if (record.has_commit()) versions.push_back(record.commit().version());
    }
    return versions;
  }

  const std::string run_ = absl::StrCat(::testing::TempDir(), "/generations");
};

TEST_F(GenerationsTest, EachHasALogOfItsOwn) {
  EXPECT_EQ(CommitLogPath("run", Generation(1)), "run/commit_log");
  EXPECT_EQ(CommitLogPath("run", Generation(2)), "run/commit_log-2");
  EXPECT_THAT(ListGenerations(run_), IsEmpty());
  Write(1, 0, 0, 1, false);
  Write(10, 1, 1, 2, false);
  Write(2, 1, 1, 2, false);
  for (const char* other : {"commit_log-1", "commit_log-x", "commit_log-02",
                            "commit_log.bak", "metrics.jsonl"}) {
    std::ofstream(absl::StrCat(run_, "/", other)) << "";
  }
  EXPECT_THAT(ListGenerations(run_),
              ElementsAre(Generation(1), Generation(2), Generation(10)));
}

TEST_F(GenerationsTest, ALineageLeavesOutWhatWasRolledBack) {
  Write(1, 0, 0, 5, true);
  Write(2, 1, 3, 8, false);  // Rolled back whole.
  Write(3, 1, 4, 6, false);
  const auto lineage = ReadLineage(run_);
  ASSERT_TRUE(lineage.ok()) << lineage.status();
  ASSERT_EQ(lineage->logs.size(), 2);
  EXPECT_THAT(VersionsOf(lineage->logs[0]), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(VersionsOf(lineage->logs[1]), ElementsAre(5, 6));
  EXPECT_TRUE(lineage->logs[0].records.back().has_commit());
}

TEST_F(GenerationsTest, AGenerationThatNeverBeganIsNotGoneOnFrom) {
  Write(1, 0, 0, 5, false);
  std::ofstream(CommitLogPath(run_, Generation(2))) << std::string(4096, '\0');
  std::ofstream(CommitLogPath(run_, Generation(3))) << "";
  const auto lineage = ReadLineage(run_);
  ASSERT_TRUE(lineage.ok()) << lineage.status();
  ASSERT_EQ(lineage->logs.size(), 1);
  EXPECT_EQ(lineage->logs[0].header.generation(), 1);
}

TEST_F(GenerationsTest, AGenerationThatBeganAtVersionZeroHasNoParent) {
  Write(1, 0, 0, 5, false);
  Write(2, 1, 0, 2, false);
  const auto lineage = ReadLineage(run_);
  ASSERT_TRUE(lineage.ok()) << lineage.status();
  ASSERT_EQ(lineage->logs.size(), 1);
  EXPECT_EQ(lineage->logs[0].header.generation(), 2);
}

TEST_F(GenerationsTest, JoinedLogsReadAsOneRun) {
  Write(1, 0, 0, 3, false);
  Write(2, 1, 2, 3, true);
  const CommitLog joined = JoinLogs(*ReadLineage(run_));
  EXPECT_EQ(joined.header.generation(), 2);
  EXPECT_THAT(VersionsOf(joined), ElementsAre(1, 2, 3));
  std::vector<double> seconds;
  for (const auto& record : joined.records) seconds.push_back(record.seconds());
  EXPECT_THAT(seconds, ElementsAre(1, 1.5, 2, 2.5, 3.5, 4, 4.5));
  EXPECT_EQ(joined.records[2].task().incarnation(), 1);
  EXPECT_EQ(joined.records[4].task().incarnation(), 2);
  EXPECT_EQ(joined.records[5].commit().entry(0).incarnation(), 2);
}

TEST_F(GenerationsTest, ATaskThatWasOpenWhenItsGenerationEndedIsLost) {
  proto::LogHeader header;
  header.set_generation(1);
  auto log =
      CommitLogWriter::Create(CommitLogPath(run_, Generation(1)), header);
  proto::LogRecord commit;
  commit.set_seconds(2);
  commit.mutable_commit()->set_version(1);
  ASSERT_TRUE((*log)->Append({TaskAt(1, 7), commit}).ok());
  Write(2, 1, 1, 2, false);
  const CommitLog joined = JoinLogs(*ReadLineage(run_));
  ASSERT_EQ(joined.records.size(), 5);
  const proto::LogRecord& lost = joined.records[2];
  EXPECT_EQ(lost.seconds(), 2);
  EXPECT_EQ(lost.end().sequence(), 7);
  EXPECT_EQ(lost.end().outcome(), 5);
}

TEST_F(GenerationsTest, AVersionThatIsMissingIsSaid) {
  Write(1, 0, 0, 3, false);
  Write(2, 1, 4, 5, false);
  EXPECT_EQ(ReadLineage(run_).status().message(),
            absl::StrCat(run_,
                         "/commit_log: lacks version 4, from which a "
                         "later generation went on"));
  Write(3, 3, 4, 5, false);
  EXPECT_EQ(ReadLineage(run_).status().message(),
            absl::StrCat(run_,
                         "/commit_log-3: generation 3 goes on from 3, "
                         "expected an earlier one"));
}

TEST_F(GenerationsTest, TasksAndLostUpdatesAreSummedUpOverAllLogs) {
  Write(1, 0, 0, 5, true);
  Write(2, 1, 3, 8, false);
  std::ofstream(absl::StrCat(run_, "/commit_log-3")) << "";
  Write(4, 1, 3, 3, false);
  std::vector<absl::Status> problems;
  const PastGenerations past = SumUp(run_, &problems);
  EXPECT_EQ(past.tasks, 6 + 5);
  EXPECT_EQ(past.updates_lost, 2 + 5);
  EXPECT_EQ(past.newest, Version(3));
  ASSERT_EQ(problems.size(), 1);
  EXPECT_THAT(std::string(problems[0].message()), HasSubstr("commit_log-3"));
}

}  // namespace
}  // namespace sluice

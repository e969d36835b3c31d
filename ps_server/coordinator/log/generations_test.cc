#include "ps_server/coordinator/log/generations.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

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

  void WriteWithoutHeader(const std::string& name) const {
    const std::string whole = absl::StrCat(run_, "/whole");
    proto::LogHeader header;
    auto log = CommitLogWriter::Create(whole, header);
    ASSERT_TRUE(log.ok()) << log.status();
    const auto begin = std::filesystem::file_size(whole);
    ASSERT_TRUE((*log)->Append({TaskAt(1, 1)}).ok());
    std::ifstream in(whole, std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    std::ofstream(absl::StrCat(run_, name)) << bytes.substr(begin);
    std::filesystem::remove(whole);
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
  EXPECT_THAT(*ListGenerations(run_), IsEmpty());
  Write(1, 0, 0, 1, false);
  Write(10, 1, 1, 2, false);
  Write(2, 1, 1, 2, false);
  for (const char* other : {"commit_log-1", "commit_log-x", "commit_log-02",
                            "commit_log.bak", "metrics.jsonl"}) {
    std::ofstream(absl::StrCat(run_, "/", other)) << "";
  }
  EXPECT_THAT(*ListGenerations(run_),
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
  WriteWithoutHeader("/commit_log-3");
  Write(4, 1, 3, 3, false);
  // Taken, and nothing more.
  std::ofstream(absl::StrCat(run_, "/commit_log-5")) << "";
  std::vector<absl::Status> problems;
  const PastGenerations past = *SumUp(run_, &problems);
  EXPECT_EQ(past.tasks, 6 + 5);
  EXPECT_EQ(past.updates_lost, 2 + 5);
  EXPECT_EQ(past.newest, Version(3));
  ASSERT_EQ(problems.size(), 1);
  EXPECT_THAT(std::string(problems[0].message()), HasSubstr("commit_log-3"));
}

// Its lead lived, and wrote on while the next generation was taken.
TEST_F(GenerationsTest, WhatALogHasGotSinceTheNextOneWasTakenCounts) {
  proto::LogHeader taken;
  taken.set_generation(2);
  taken.mutable_past()->set_tasks(3);
  Write(1, 0, 0, 5, true);
  {
    ASSERT_TRUE(
        CommitLogWriter::Create(CommitLogPath(run_, Generation(2)), taken)
            .ok());
  }
  std::vector<absl::Status> problems;
  EXPECT_EQ(SumUp(run_, &problems)->tasks, 6);
  EXPECT_EQ(SumUp(run_, &problems)->newest, Version(5));
  // If it can be read.
  std::filesystem::remove(CommitLogPath(run_, Generation(1)));
  WriteWithoutHeader("/commit_log");
  EXPECT_EQ(SumUp(run_, &problems)->tasks, 3);
  EXPECT_THAT(problems, IsEmpty());
}

TEST_F(GenerationsTest, ALogIsHeldWhileItIsWritten) {
  EXPECT_FALSE(LogIsHeld(run_, Generation(1)));
  {
    proto::LogHeader header;
    header.set_generation(1);
    const auto log =
        *CommitLogWriter::Create(CommitLogPath(run_, Generation(1)), header);
    EXPECT_TRUE(LogIsHeld(run_, Generation(1)));
    EXPECT_FALSE(LogIsHeld(run_, Generation(2)));
    ASSERT_TRUE(log->Cut(Version(5)).ok());
    EXPECT_TRUE(LogIsHeld(run_, Generation(1))) << "its second file";
  }
  EXPECT_FALSE(LogIsHeld(run_, Generation(1)));
}

TEST_F(GenerationsTest, WhatTheRunBeganWithIsInARecordOrTheNextHeader) {
  proto::LogHeader header;
  header.set_generation(1);
  {
    const auto log =
        *CommitLogWriter::Create(CommitLogPath(run_, Generation(1)), header);
    proto::LogRecord agreed;
    agreed.set_instruction_set(proto::AVX512);
    proto::LogRecord began;
    (*began.mutable_inputs()->mutable_inputs())["training data"] = "a";
    ASSERT_TRUE(log->Append({began, agreed}).ok());
    std::vector<absl::Status> problems;
    const auto past = SumUp(run_, &problems);
    EXPECT_EQ(past->instruction_set, proto::AVX512);
    EXPECT_THAT(past->inputs, ElementsAre(Pair("training data", "a")));
    ASSERT_TRUE(log->Cut(Version(5)).ok());
  }
  std::vector<absl::Status> problems;
  const auto past = SumUp(run_, &problems);
  EXPECT_EQ(past->instruction_set, proto::AVX512);
  EXPECT_THAT(past->inputs, ElementsAre(Pair("training data", "a")));
  EXPECT_TRUE(problems.empty());
}

// ---- A log of several files. ----

// Generation 3, which goes on from version 100 of generation 1, of `files`
// files with `tasks` tasks each, every one of which makes a version; cut at
// each file's last version.
class LogOfFilesTest : public GenerationsTest {
 protected:
  static constexpr int64_t kPastTasks = 1000;

  void WriteFiles(int files, int64_t tasks) {
    proto::LogHeader header;
    header.set_generation(3);
    header.set_parent_generation(1);
    header.set_restored_version(100);
    header.mutable_past()->set_tasks(kPastTasks);
    header.mutable_past()->set_updates_lost(7);
    header.mutable_past()->set_newest_version(100);
    log_ = *CommitLogWriter::Create(CommitLogPath(run_, Generation(3)), header);
    version_ = 100;
    for (int file = 0; file < files; ++file) {
      if (file > 0) {
        ASSERT_TRUE(log_->Cut(Version(version_)).ok());
      }
      Append(tasks);
    }
  }
  void Append(int64_t tasks) {
    std::vector<proto::LogRecord> records;
    for (int64_t i = 0; i < tasks; ++i) {
      ++version_;
      records.push_back(TaskAt(static_cast<double>(version_), version_));
      proto::LogEntry entry;
      entry.set_incarnation(1);
      entry.set_sequence(version_);
      records.emplace_back().mutable_commit()->set_version(version_);
      *records.back().mutable_commit()->add_entry() = entry;
      if (records.size() < 1000 && i + 1 < tasks) continue;
      ASSERT_TRUE(log_->Append(records).ok());
      records.clear();
    }
  }
  static void Damage(const std::string& path) {
    std::fstream file(path, std::ios::in | std::ios::out);
    file.seekp(20);
    file << "xxxxx";
  }

  std::unique_ptr<CommitLogWriter> log_;
  int64_t version_ = 0;
};

TEST_F(LogOfFilesTest, IsReadAsOne) {
  WriteFiles(3, 5);
  for (const char* other : {"commit_log-3.0", "commit_log-3.x",
                            "commit_log-3.0105", "commit_log-3.105.tmp"}) {
    std::ofstream(absl::StrCat(run_, "/", other)) << "";
  }
  const std::string first = CommitLogPath(run_, Generation(3));
  EXPECT_THAT(*CommitLogFiles(run_, Generation(3)),
              ElementsAre(first, first + ".105", first + ".110"));
  EXPECT_EQ(log_->path(), first + ".110");
  EXPECT_THAT(*ListGenerations(run_), ElementsAre(Generation(3)));
  const auto log = ReadGeneration(run_, Generation(3));
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ(log->header.after_version(), 0);
  EXPECT_EQ(log->records.size(), 3 * 5 * 2);
  std::vector<int64_t> expected;
  for (int64_t version = 101; version <= 115; ++version) {
    expected.push_back(version);
  }
  EXPECT_EQ(VersionsOf(*log), expected);
}

TEST_F(LogOfFilesTest, ARecoveryReadsOnlyTheNewest) {
  WriteFiles(3, 5);
  for (const std::string& path : {CommitLogPath(run_, Generation(3)),
                                  CommitLogPath(run_, Generation(3)) + ".105",
                                  CommitLogPath(run_, Generation(1))}) {
    std::ofstream(path) << "no longer a log";
  }
  std::vector<absl::Status> problems;
  const PastGenerations past = *SumUp(run_, &problems);
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_EQ(past.tasks, kPastTasks + 15);
  EXPECT_EQ(past.updates_lost, 7);
  EXPECT_EQ(past.newest, Version(115));
}

TEST_F(LogOfFilesTest, WhatNeverBeganIsPassedOver) {
  WriteFiles(2, 5);
  // A loss of power behind the cut, and a generation that was only taken.
  std::ofstream(log_->path()) << std::string(4096, '\0');
  std::ofstream(CommitLogPath(run_, Generation(4))) << "";
  std::vector<absl::Status> problems;
  const PastGenerations past = *SumUp(run_, &problems);
  EXPECT_THAT(problems, IsEmpty());
  EXPECT_EQ(past.tasks, kPastTasks + 5);
  EXPECT_EQ(past.newest, Version(105));
  const auto log = ReadGeneration(run_, Generation(3));
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ(log->records.size(), 10);
}

TEST_F(LogOfFilesTest, AGapBetweenFilesIsAnError) {
  WriteFiles(2, 5);
  const std::string first = CommitLogPath(run_, Generation(3));
  const std::string second = log_->path();
  std::filesystem::resize_file(first, std::filesystem::file_size(first) - 3);
  EXPECT_THAT(
      std::string(ReadGeneration(run_, Generation(3)).status().message()),
      HasSubstr(absl::StrCat("; ", second, " goes on behind it")));
  std::filesystem::remove(first);
  EXPECT_EQ(ReadGeneration(run_, Generation(3)).status().message(),
            absl::StrCat(second,
                         ": goes on behind version 105, and the files "
                         "before it are not there"));
}

TEST_F(LogOfFilesTest, AFileThatIsMissingOrDamagedInTheMiddleIsAnError) {
  WriteFiles(3, 5);
  const std::string first = CommitLogPath(run_, Generation(3));
  const std::string said = absl::StrCat(
      first,
      ".110: goes on behind version 110, and the files before it end with "
      "version 105: one is damaged or not there");
  std::ofstream(first + ".105") << "no longer a log";
  EXPECT_EQ(ReadGeneration(run_, Generation(3)).status().message(), said);
  std::filesystem::remove(first + ".105");
  EXPECT_EQ(ReadGeneration(run_, Generation(3)).status().message(), said);
}

// Peak memory in KiB of a process that does `what` and nothing else.
int64_t PeakKib(const std::function<void()>& what) {
  const pid_t child = fork();
  if (child == 0) {
    what();
    _exit(0);
  }
  rusage used = {};
  int status = 0;
  EXPECT_EQ(wait4(child, &status, 0, &used), child);
  EXPECT_EQ(status, 0);
  return used.ru_maxrss;
}

// In one file, as those of a run without checkpoints are.
TEST_F(LogOfFilesTest, AMillionRecordsTakeNoMoreMemoryThanTenThousand) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "SKIPPED: the sanitizer keeps what has been freed";
#endif
  int64_t peaks[2];
  for (const int64_t tasks : {5000, 500000}) {
    std::filesystem::remove(CommitLogPath(run_, Generation(3)));
    WriteFiles(1, tasks);
    peaks[tasks > 5000] = PeakKib([&] {
      std::vector<absl::Status> problems;
      const PastGenerations past = *SumUp(run_, &problems);
      if (past.tasks != kPastTasks + tasks || !problems.empty()) _exit(1);
    });
  }
  // The buffer that a file is read through; a tenth of a record each.
  EXPECT_LT(peaks[1], peaks[0] + 4096);
}

}  // namespace
}  // namespace sluice

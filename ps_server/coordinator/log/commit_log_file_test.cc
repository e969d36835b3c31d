#include "ps_server/coordinator/log/commit_log_file.h"

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

class CommitLogFileTest : public testing::Test {
 protected:
  CommitLogFileTest()
      : path_(testing::TempDir() + "/" +
              testing::UnitTest::GetInstance()->current_test_info()->name()) {
    std::remove(path_.c_str());
  }

  static proto::LogRecord Record(int64_t version) {
    proto::LogRecord record;
    record.mutable_commit()->set_version(version);
    return record;
  }

  // A log with commits 1 to `commits`.
  void Write(int commits) {
    proto::LogHeader header;
    header.set_job_fingerprint("abc");
    auto writer = CommitLogWriter::Create(path_, header);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (int i = 1; i <= commits; ++i) {
      ASSERT_TRUE((*writer)->Append({Record(i)}).ok());
    }
    ASSERT_TRUE((*writer)->Sync().ok());
  }

  std::string Bytes() const {
    std::ifstream in(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void SetBytes(const std::string& bytes) const {
    std::ofstream(path_, std::ios::binary) << bytes;
  }

  // `log` ends at `offset`; the file has `size` bytes.
  void ExpectTorn(const CommitLog& log, size_t offset, size_t size) const {
    ASSERT_TRUE(log.torn.has_value()) << offset << " of " << size;
    EXPECT_EQ(log.torn->path, path_);
    EXPECT_EQ(log.torn->offset, offset);
    EXPECT_EQ(log.torn->bytes, size - offset);
  }

  const std::string path_;
};

TEST_F(CommitLogFileTest, ReadsWhatWasWrittenInOrder) {
  Write(3);
  const auto log = ReadCommitLog(path_);
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ(log->header.job_fingerprint(), "abc");
  ASSERT_EQ(log->records.size(), 3);
  EXPECT_EQ(log->records[2].commit().version(), 3);
  EXPECT_FALSE(log->torn.has_value());
}

TEST_F(CommitLogFileTest, WritingWhatWasReadGivesTheSameBytes) {
  Write(3);
  const std::string first = Bytes();
  const auto log = ReadCommitLog(path_);
  std::remove(path_.c_str());
  auto writer = CommitLogWriter::Create(path_, log->header);
  ASSERT_TRUE((*writer)->Append(log->records).ok());
  EXPECT_EQ(Bytes(), first);
}

TEST_F(CommitLogFileTest, ATornLastRecordIsLeftOutWhereverItIsCut) {
  Write(2);
  const size_t before_last = Bytes().size();
  std::remove(path_.c_str());
  Write(3);
  const std::string whole = Bytes();
  for (size_t size = before_last + 1; size < whole.size(); ++size) {
    SetBytes(whole.substr(0, size));
    const auto log = ReadCommitLog(path_);
    ASSERT_TRUE(log.ok()) << log.status();
    EXPECT_EQ(log->records.size(), 2) << "cut at " << size;
    ExpectTorn(*log, before_last, size);
  }
}

// A file system may have noted the file's length and not yet have written what
// is in it.
TEST_F(CommitLogFileTest, ATailOfZerosEndsTheLogAndIsSaid) {
  Write(2);
  const std::string whole = Bytes();
  for (const size_t zeros : {1, 11, 12, 13, 4096, 300000}) {
    SetBytes(whole + std::string(zeros, '\0'));
    const auto log = ReadCommitLog(path_);
    ASSERT_TRUE(log.ok()) << log.status();
    EXPECT_EQ(log->records.size(), 2) << zeros;
    ExpectTorn(*log, whole.size(), whole.size() + zeros);
  }
  EXPECT_EQ(ReadCommitLog(path_)->torn->ToString(),
            path_ + ": the last 300000 bytes, from byte " +
                std::to_string(whole.size()) +
                " on, are no whole record: what was written there is missing");
}

TEST_F(CommitLogFileTest, ADamagedLastRecordEndsTheLogWhereverItsDamageIs) {
  Write(2);
  const size_t before_last = Bytes().size();
  std::remove(path_.c_str());
  Write(3);
  const std::string whole = Bytes();
  for (size_t at = before_last; at < whole.size(); ++at) {
    // Its length, its checksum or its payload; and zeros behind it.
    std::string bytes = whole + std::string(100, '\0');
    bytes[at] = static_cast<char>(~bytes[at]);
    SetBytes(bytes);
    const auto log = ReadCommitLog(path_);
    ASSERT_TRUE(log.ok()) << log.status();
    EXPECT_EQ(log->records.size(), 2) << "damaged at " << at;
    ExpectTorn(*log, before_last, bytes.size());
  }
}

TEST_F(CommitLogFileTest, DamageWithAWholeRecordBehindItIsAnErrorWhatever) {
  Write(1);
  const size_t begin = Bytes().size();
  std::remove(path_.c_str());
  Write(2);
  const size_t end = Bytes().size();
  std::remove(path_.c_str());
  Write(3);
  const std::string whole = Bytes();
  for (size_t at = begin; at < end; ++at) {
    std::string bytes = whole;
    bytes[at] = static_cast<char>(~bytes[at]);
    SetBytes(bytes);
    const absl::Status status = ReadCommitLog(path_).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss) << at;
    EXPECT_NE(std::string(status.message())
                  .find("the record at byte " + std::to_string(begin) +
                        " is damaged"),
              std::string::npos)
        << status;
  }
  // A hole that the disk has not written, however large.
  SetBytes(whole.substr(0, begin) + std::string(3 << 20, '\0') +
           whole.substr(end));
  EXPECT_EQ(ReadCommitLog(path_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(CommitLogFileTest, ALogWithoutAWholeRecordHasNeverBegun) {
  Write(1);
  const std::string whole = Bytes();
  for (const std::string& bytes :
       {std::string(), whole.substr(0, 5), std::string(4096, '\0')}) {
    SetBytes(bytes);
    const auto reader = CommitLogReader::Open(path_);
    ASSERT_TRUE(reader.ok()) << reader.status();
    EXPECT_FALSE((*reader)->header().has_value());
  }
}

TEST_F(CommitLogFileTest, AFolderIsNotTakenForALog) {
  std::filesystem::create_directory(path_);
  const absl::Status status = ReadCommitLog(path_).status();
  std::filesystem::remove(path_);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), path_ + ": is no file");
}

TEST_F(CommitLogFileTest, DamageBeforeTheEndIsDataLossAndSaysWhere) {
  Write(1);
  const size_t position = Bytes().size();
  std::remove(path_.c_str());
  Write(3);
  std::string bytes = Bytes();
  bytes[position + 12] ^= 1;  // The payload of the second commit.
  SetBytes(bytes);
  const absl::Status status = ReadCommitLog(path_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_NE(
      std::string(status.message()).find("at byte " + std::to_string(position)),
      std::string::npos)
      << status;
}

TEST_F(CommitLogFileTest, ALengthBeyondReasonIsDamageNotATornEnd) {
  Write(1);
  std::string bytes = Bytes();
  bytes[3] = '\xFF';
  SetBytes(bytes);
  EXPECT_EQ(ReadCommitLog(path_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(CommitLogFileTest, AFileThatIsNoLogIsRefused) {
  SetBytes("");
  EXPECT_EQ(ReadCommitLog(path_).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(CommitLogFileTest, AnExistingLogIsNeverWrittenOver) {
  Write(1);
  EXPECT_EQ(CommitLogWriter::Create(path_, {}).status().code(),
            absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(ReadCommitLog(path_)->records.size(), 1);
}

// A disk that lets a log go on and makes no further file.
class NoFurtherFile : public FileOperations {
 public:
  absl::StatusOr<int> CreateNew(const std::string& path) override {
    if (made_++ == 0) return FileOperations::CreateNew(path);
    return absl::ResourceExhaustedError(path + ": open: no room");
  }

 private:
  int made_ = 0;
};

TEST_F(CommitLogFileTest, WhereTheNextFileCannotBeMadeTheLogGoesOnInItsOwn) {
  NoFurtherFile disk;
  auto writer = CommitLogWriter::Create(path_, {}, &disk);
  ASSERT_TRUE(writer.ok()) << writer.status();
  ASSERT_TRUE((*writer)->Append({Record(1)}).ok());
  EXPECT_EQ((*writer)->Cut(Version(1)).code(),
            absl::StatusCode::kResourceExhausted);
  ASSERT_TRUE((*writer)->Append({Record(2)}).ok());
  EXPECT_EQ((*writer)->path(), path_);
  EXPECT_EQ(ReadCommitLog(path_)->records.size(), 2);
}

// As where a network's disk stalls between the next file's header and its name.
class NoMoreChanges : public FileOperations {
 public:
  absl::Status SyncFolder(const std::string& path) override {
    return absl::UnavailableError(path + ": sync: stalled");
  }
  absl::Status Remove(const std::string& path) override {
    if (removes) return FileOperations::Remove(path);
    return absl::UnavailableError(path + ": remove: stalled");
  }
  bool removes = false;
};

TEST_F(CommitLogFileTest, ANextFileThatCannotBeRemovedIsGoneOnWith) {
  for (const bool removes : {true, false}) {
    std::remove(path_.c_str());
    std::remove((path_ + ".1").c_str());
    NoMoreChanges disk;
    disk.removes = removes;
    auto writer = CommitLogWriter::Create(path_, {}, &disk);
    ASSERT_TRUE(writer.ok()) << writer.status();
    ASSERT_TRUE((*writer)->Append({Record(1)}).ok());
    EXPECT_EQ((*writer)->Cut(Version(1)).ok(), !removes);
    ASSERT_TRUE((*writer)->Append({Record(2)}).ok());
    EXPECT_EQ((*writer)->path(), removes ? path_ : path_ + ".1");
    EXPECT_EQ(ReadCommitLog(path_)->records.size(), removes ? 2 : 1);
    EXPECT_EQ(ReadCommitLog(path_ + ".1").ok(), !removes);
  }
}

TEST_F(CommitLogFileTest, TheNextFileSaysWhatCameBeforeIt) {
  proto::LogHeader header;
  header.set_generation(4);
  header.mutable_past()->set_tasks(10);
  header.mutable_past()->set_updates_lost(3);
  auto writer = CommitLogWriter::Create(path_, header);
  ASSERT_TRUE(writer.ok()) << writer.status();
  proto::LogRecord task;
  task.mutable_task()->set_worker(1);
  ASSERT_TRUE((*writer)->Append({task, task, Record(7)}).ok());
  const std::string next = path_ + ".7";
  std::remove(next.c_str());
  ASSERT_TRUE((*writer)->Cut(Version(7)).ok());
  ASSERT_TRUE((*writer)->Cut(Version(7)).ok());  // Once is enough.
  ASSERT_TRUE((*writer)->Append({Record(8)}).ok());
  EXPECT_EQ((*writer)->path(), next);
  const auto log = ReadCommitLog(next);
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ(log->header.generation(), 4);
  EXPECT_EQ(log->header.after_version(), 7);
  EXPECT_EQ(log->header.past().tasks(), 12);
  EXPECT_EQ(log->header.past().updates_lost(), 3);
  EXPECT_EQ(log->header.past().newest_version(), 7);
  EXPECT_EQ(log->records.size(), 1);
  EXPECT_EQ(ReadCommitLog(path_)->records.size(), 3);
}

// Says in which order files are made and brought to the disk.
class Ordered : public FileOperations {
 public:
  absl::StatusOr<int> CreateNew(const std::string& path) override {
    said.push_back("create " + path);
    return FileOperations::CreateNew(path);
  }
  absl::Status Sync(int file, const std::string& path) override {
    said.push_back("sync " + path);
    return FileOperations::Sync(file, path);
  }
  std::vector<std::string> said;
};

TEST_F(CommitLogFileTest, WhatComesBeforeTheNextFileIsOnTheDiskFirst) {
  const std::string next = path_ + ".1";
  std::remove(next.c_str());
  Ordered disk;
  auto writer = CommitLogWriter::Create(path_, {}, &disk);
  ASSERT_TRUE(writer.ok() && (*writer)->Append({Record(1)}).ok());
  ASSERT_TRUE((*writer)->Cut(Version(1)).ok());
  EXPECT_EQ(disk.said,
            (std::vector<std::string>{"create " + path_, "sync " + path_,
                                      "create " + next}));
}

// As where there is no room: half of a batch.
class HalfOfIt : public FileOperations {
 public:
  absl::Status Write(int file, const std::string& path,
                     absl::string_view data) override {
    if (!full) return FileOperations::Write(file, path, data);
    FileOperations::Write(file, path, data.substr(0, data.size() / 2))
        .IgnoreError();
    return absl::ResourceExhaustedError("no room");
  }
  absl::Status Truncate(int file, const std::string& path,
                        int64_t bytes) override {
    if (too_full > 0 && too_full-- > 0) {
      return absl::ResourceExhaustedError("no room to cut");
    }
    return FileOperations::Truncate(file, path, bytes);
  }
  bool full = false;
  int too_full = 0;  // So many times it cannot even be cut down.
};

TEST_F(CommitLogFileTest, ABatchThatDoesNotFitIsUndoneAndMayBeRepeated) {
  HalfOfIt disk;
  auto writer = CommitLogWriter::Create(path_, {}, &disk);
  ASSERT_TRUE(writer.ok() && (*writer)->Append({Record(1)}).ok());
  disk.full = true;
  disk.too_full = 2;
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ((*writer)->Append({Record(2), Record(3)}).code(),
              absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(ReadCommitLog(path_)->records.size(), 1);
  disk.full = false;
  ASSERT_TRUE((*writer)->Append({Record(2), Record(3)}).ok());
  const auto log = ReadCommitLog(path_);
  ASSERT_TRUE(log.ok()) << log.status();
  EXPECT_EQ(log->records.size(), 3);
  EXPECT_FALSE(log->torn.has_value());
}

TEST_F(CommitLogFileTest, ABaseThatIsWrittenOnceIsThatOfEveryShard) {
  proto::LogHeader header;
  header.set_shards(3);
  auto writer = CommitLogWriter::Create(path_, header);
  ASSERT_TRUE(writer.ok()) << writer.status();
  proto::LogRecord record = Record(6);
  record.mutable_commit()->add_entry()->add_shard_base(5);
  proto::LogEntry* other = record.mutable_commit()->add_entry();
  for (const int64_t base : {4, 5, 5}) other->add_shard_base(base);
  ASSERT_TRUE((*writer)->Append({record}).ok());
  const auto log = ReadCommitLog(path_);
  ASSERT_TRUE(log.ok()) << log.status();
  const proto::LogCommit& commit = log->records[0].commit();
  EXPECT_EQ(commit.entry(0).shard_base_size(), 3);
  EXPECT_EQ(commit.entry(0).shard_base(2), 5);
  EXPECT_EQ(commit.entry(1).shard_base(0), 4);
}

TEST_F(CommitLogFileTest, AMissingFolderIsNamed) {
  const absl::Status status =
      CommitLogWriter::Create("/nonexistent/log", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(),
            "/nonexistent/log: open: No such file or directory");
}

}  // namespace
}  // namespace sluice

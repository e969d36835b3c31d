#include "ps_server/coordinator/commit_log_file.h"

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

TEST_F(CommitLogFileTest, SaysHowLongItIsWithEachRecord) {
  Write(1);
  const auto one = static_cast<int64_t>(Bytes().size());
  std::filesystem::remove(path_);
  proto::LogHeader header;
  header.set_job_fingerprint("abc");
  auto writer = CommitLogWriter::Create(path_, header);
  ASSERT_TRUE(writer.ok()) << writer.status();
  std::vector<int64_t> ends;
  ASSERT_TRUE((*writer)->Append({Record(1), Record(2)}, &ends).ok());
  ASSERT_EQ(ends.size(), 2);
  EXPECT_EQ(ends[0], one);
  EXPECT_EQ(ends[1], Bytes().size());
  ASSERT_TRUE((*writer)->Append({Record(3)}, &ends).ok());
  ASSERT_EQ(ends.size(), 1);
  EXPECT_EQ(ends[0], Bytes().size());
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
  for (const size_t zeros : {1, 11, 12, 13, 4096, 3 << 20}) {
    SetBytes(whole + std::string(zeros, '\0'));
    const auto log = ReadCommitLog(path_);
    ASSERT_TRUE(log.ok()) << log.status();
    EXPECT_EQ(log->records.size(), 2) << zeros;
    ExpectTorn(*log, whole.size(), whole.size() + zeros);
  }
  EXPECT_EQ(ReadCommitLog(path_)->torn->ToString(),
            path_ + ": the last 3145728 bytes, from byte " +
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
  SetBytes(whole.substr(0, begin) + std::string(5 << 20, '\0') +
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
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), path_ + ": read: Is a directory");
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

TEST_F(CommitLogFileTest, AMissingFolderIsNamed) {
  const absl::Status status =
      CommitLogWriter::Create("/nonexistent/log", {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(),
            "/nonexistent/log: open: No such file or directory");
}

}  // namespace
}  // namespace sluice

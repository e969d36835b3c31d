#include "ps_server/coordinator/commit_log_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kPrefixBytes = kLengthBytes + 8;
// A commit of 65536 gradients on 1024 shards is below this. A longer length is
// damage, and must not be taken for a record torn at the end of the file.
constexpr uint32_t kMaxRecordBytes = 1u << 30;

void AppendLittleEndian(uint64_t value, int bytes, std::string* out) {
  for (int i = 0; i < bytes; ++i) {
    out->push_back(static_cast<char>(value >> (8 * i)));
  }
}

uint64_t ReadLittleEndian(absl::string_view from) {
  uint64_t value = 0;
  for (size_t i = 0; i < from.size(); ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(from[i]))
             << (8 * i);
  }
  return value;
}

void AppendRecord(const proto::LogRecord& record, std::string* out) {
  const std::string payload = record.SerializeAsString();
  AppendLittleEndian(payload.size(), kLengthBytes, out);
  AppendLittleEndian(XXH3_64bits(payload.data(), payload.size()), 8, out);
  out->append(payload);
}

// The records of a log's bytes, from the first on.
class RecordReader {
 public:
  RecordReader(std::string path, absl::string_view bytes)
      : path_(std::move(path)), bytes_(bytes) {}

  // The next record; empty at the end.
  absl::StatusOr<std::optional<proto::LogRecord>> Next() {
    const absl::string_view rest = bytes_.substr(position_);
    if (rest.empty()) return std::nullopt;
    if (rest.size() < kPrefixBytes) return Torn();
    const uint64_t length = ReadLittleEndian(rest.substr(0, kLengthBytes));
    if (length > kMaxRecordBytes) return Damaged("length");
    if (rest.size() - kPrefixBytes < length) return Torn();
    const absl::string_view payload = rest.substr(kPrefixBytes, length);
    proto::LogRecord record;
    if (XXH3_64bits(payload.data(), payload.size()) !=
            ReadLittleEndian(rest.substr(kLengthBytes, 8)) ||
        !record.ParseFromArray(payload.data(), payload.size())) {
      // The system may have written the length and not yet the payload.
      if (rest.size() - kPrefixBytes == length) return Torn();
      return Damaged("checksum");
    }
    position_ += kPrefixBytes + length;
    return record;
  }

  bool torn() const { return torn_; }

 private:
  std::optional<proto::LogRecord> Torn() {
    torn_ = true;
    return std::nullopt;
  }
  absl::Status Damaged(const std::string& what) const {
    return absl::DataLossError(absl::StrCat(path_, ": the record at byte ",
                                            position_, " has a wrong ", what));
  }

  const std::string path_;
  const absl::string_view bytes_;
  size_t position_ = 0;
  bool torn_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<CommitLogWriter>> CommitLogWriter::Create(
    const std::string& path, const proto::LogHeader& header) {
  const int file = open(
      path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) {
    const std::string text = absl::StrCat(path, ": open: ", strerror(errno));
    return errno == EEXIST ? absl::AlreadyExistsError(text)
                           : absl::UnavailableError(text);
  }
  std::unique_ptr<CommitLogWriter> writer(new CommitLogWriter(path, file));
  proto::LogRecord record;
  *record.mutable_header() = header;
  SLUICE_RETURN_IF_ERROR(writer->Append({record}));
  return writer;
}

CommitLogWriter::CommitLogWriter(std::string path, int file)
    : path_(std::move(path)), file_(file) {}

CommitLogWriter::~CommitLogWriter() { close(file_); }

absl::Status CommitLogWriter::Fail(const std::string& operation) {
  absl::MutexLock lock(&mu_);
  status_ = absl::UnavailableError(
      absl::StrCat(path_, ": ", operation, ": ", strerror(errno)));
  return status_;
}

absl::Status CommitLogWriter::status() const {
  absl::MutexLock lock(&mu_);
  return status_;
}

absl::Status CommitLogWriter::Append(
    const std::vector<proto::LogRecord>& records, std::vector<int64_t>* ends) {
  SLUICE_RETURN_IF_ERROR(status());
  if (ends != nullptr) ends->clear();
  if (records.empty()) return absl::OkStatus();
  std::string bytes;
  for (const proto::LogRecord& record : records) {
    AppendRecord(record, &bytes);
    if (ends != nullptr) {
      ends->push_back(bytes_ + static_cast<int64_t>(bytes.size()));
    }
  }
  absl::string_view left = bytes;
  while (!left.empty()) {
    const ssize_t written = write(file_, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return Fail("write");
    left.remove_prefix(written);
  }
  bytes_ += static_cast<int64_t>(bytes.size());
  return absl::OkStatus();
}

absl::Status CommitLogWriter::Sync() {
  SLUICE_RETURN_IF_ERROR(status());
  return fsync(file_) == 0 ? absl::OkStatus() : Fail("fsync");
}

absl::StatusOr<CommitLog> ReadCommitLog(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(absl::StrCat(path, ": cannot be read"));
  const std::string bytes{std::istreambuf_iterator<char>(in),
                          std::istreambuf_iterator<char>()};
  RecordReader reader(path, bytes);
  SLUICE_ASSIGN_OR_RETURN(std::optional<proto::LogRecord> record,
                          reader.Next());
  if (!record.has_value() || !record->has_header()) {
    return absl::DataLossError(
        absl::StrCat(path, ": does not begin with a header"));
  }
  CommitLog log;
  log.header = record->header();
  while (true) {
    SLUICE_ASSIGN_OR_RETURN(record, reader.Next());
    if (!record.has_value()) break;
    log.records.push_back(*std::move(record));
  }
  log.torn = reader.torn();
  return log;
}

}  // namespace sluice

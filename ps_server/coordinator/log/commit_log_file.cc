// A record is its length (4 bytes), the XXH3-64 of its payload (8) and the
// payload, a LogRecord. What holds of the file that is written: its first
// bytes_ bytes are whole records, in whole batches; behind them lies something
// only while `half_` is set, and that is cut off before anything else is
// written.
//
// The file has 1000 bytes, and room for 120 more:
//
//   Append, 300 bytes    kResourceExhausted; cut back to 1000
//   -- somebody makes room --
//   Append, repeated     1300
//
// After any other error nobody knows what lies behind bytes_: the writer
// latches. A reader takes whole records as far as there are some; what follows
// the last one is torn, but with a whole record behind it the file is damaged.
#include "ps_server/coordinator/log/commit_log_file.h"

#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/files/input_file.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kPrefixBytes = kLengthBytes + 8;
// A commit of 65536 gradients on 1024 shards is below this.
constexpr size_t kMaxRecordBytes = size_t{1} << 30;
// Behind what cannot be read, records up to this are looked for: all tasks, all
// ends and all but the largest commits are shorter.
constexpr size_t kMostToLookFor = size_t{1} << 20;
constexpr size_t kReadBytes = size_t{1} << 18;
constexpr char kLeavesLog[] = "sluice/leaves_log";

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

}  // namespace

absl::StatusOr<std::unique_ptr<CommitLogWriter>> CommitLogWriter::Create(
    const std::string& path, const proto::LogHeader& header) {
  return Create(path, header, FileOperations::Real());
}

absl::StatusOr<std::unique_ptr<CommitLogWriter>> CommitLogWriter::Create(
    const std::string& path, const proto::LogHeader& header,
    FileOperations* disk) {
  int64_t bytes = 0;
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<File> file,
                          Begin(path, header, disk, &bytes));
  std::unique_ptr<CommitLogWriter> writer(
      new CommitLogWriter(std::move(file), header));
  writer->bytes_ = bytes;
  return writer;
}

absl::StatusOr<std::shared_ptr<CommitLogWriter::File>> CommitLogWriter::Begin(
    const std::string& path, const proto::LogHeader& header,
    FileOperations* disk, int64_t* bytes) {
  SLUICE_ASSIGN_OR_RETURN(const int created, disk->CreateNew(path));
  disk->Hold(created);
  auto file = std::make_shared<File>(path, created, disk);
  proto::LogRecord record;
  *record.mutable_header() = header;
  std::string text;
  AppendRecord(record, &text);
  const absl::Status written = disk->Write(created, path, text);
  // A file without a header is passed over by whoever reads.
  if (!written.ok()) return WithoutLog(written, path, disk);
  *bytes = static_cast<int64_t>(text.size());
  return file;
}

absl::Status WithoutLog(absl::Status failed, const std::string& path,
                        FileOperations* disk) {
  if (!disk->Remove(path).ok()) failed.SetPayload(kLeavesLog, absl::Cord());
  return failed;
}

bool LeavesLog(const absl::Status& failed) {
  return failed.GetPayload(kLeavesLog).has_value();
}

CommitLogWriter::CommitLogWriter(std::shared_ptr<File> file,
                                 const proto::LogHeader& header)
    : first_path_(file->path), header_(header), file_(std::move(file)) {}

CommitLogWriter::~CommitLogWriter() = default;

absl::Status CommitLogWriter::Cut(Version version) {
  SLUICE_RETURN_IF_ERROR(status());
  if (header_.after_version() == version.value()) return absl::OkStatus();
  // Or a loss of power could leave a gap between two files.
  SLUICE_RETURN_IF_ERROR(Sync());
  proto::LogHeader header = header_;
  header.set_after_version(version.value());
  int64_t bytes = 0;
  SLUICE_ASSIGN_OR_RETURN(std::shared_ptr<File> next,
                          Begin(absl::StrCat(first_path_, ".", version.value()),
                                header, &file_->disk, &bytes));
  const absl::Status named = next->disk.SyncFolder(FolderOf(next->path));
  // One that cannot be removed is gone on with: readers would take a whole
  // file, and look in no other for what comes after it.
  if (!named.ok() && next->disk.Remove(next->path).ok()) return named;
  header_ = header;
  bytes_ = bytes;
  absl::MutexLock lock(&mu_);
  file_ = std::move(next);
  return absl::OkStatus();
}

void CommitLogWriter::Count(const proto::LogRecord& record) {
  proto::LogPast* past = header_.mutable_past();
  if (record.has_task()) past->set_tasks(past->tasks() + 1);
  if (record.has_commit()) past->set_newest_version(record.commit().version());
  if (record.has_instruction_set()) {
    past->set_instruction_set(record.instruction_set());
  }
  if (record.has_inputs()) *past->mutable_inputs() = record.inputs();
}

absl::Status CommitLogWriter::Fail(const absl::Status& failure) {
  absl::MutexLock lock(&mu_);
  status_ = absl::UnavailableError(failure.message());
  return status_;
}

absl::Status CommitLogWriter::status() const {
  absl::MutexLock lock(&mu_);
  return status_;
}

absl::Status CommitLogWriter::Append(
    const std::vector<proto::LogRecord>& records) {
  SLUICE_RETURN_IF_ERROR(status());
  if (records.empty()) return absl::OkStatus();
  std::string bytes;
  for (const proto::LogRecord& record : records) {
    AppendRecord(record, &bytes);
  }
  SLUICE_RETURN_IF_ERROR(Undo());
  const absl::Status written =
      file_->disk.Write(file_->file, file_->path, bytes);
  if (absl::IsResourceExhausted(written)) {
    half_ = true;
    const absl::Status undone = Undo();
    // A disk may be so full that nothing can be removed from it, either.
    return undone.ok() || absl::IsResourceExhausted(undone) ? written : undone;
  }
  if (!written.ok()) return Fail(written);
  bytes_ += static_cast<int64_t>(bytes.size());
  for (const proto::LogRecord& record : records) Count(record);
  return absl::OkStatus();
}

// What there was room for is no whole batch, and would be in the way of the
// next attempt.
absl::Status CommitLogWriter::Undo() {
  if (!half_) return absl::OkStatus();
  const absl::Status undone =
      file_->disk.Truncate(file_->file, file_->path, bytes_);
  half_ = !undone.ok();
  return undone.ok() || absl::IsResourceExhausted(undone) ? undone
                                                          : Fail(undone);
}

// What the system had taken and could not write, for want of room too, is lost.
absl::Status CommitLogWriter::Sync() {
  SLUICE_RETURN_IF_ERROR(status());
  std::shared_ptr<File> file;
  {
    absl::MutexLock lock(&mu_);
    file = file_;
  }
  const absl::Status synced = file->disk.Sync(file->file, file->path);
  return synced.ok() ? synced : Fail(synced);
}

// ---- Reading. ----

namespace {

void WriteOutBases(const proto::LogHeader& header, proto::LogCommit* commit) {
  const int bases = std::max(header.shards(), header.base_begin_size());
  for (proto::LogEntry& entry : *commit->mutable_entry()) {
    if (entry.shard_base_size() == 1 && bases > 1) {
      entry.mutable_shard_base()->Resize(bases, entry.shard_base(0));
    }
  }
}

}  // namespace

std::string TornTail::ToString() const {
  return absl::StrCat(path, ": the last ", bytes, " bytes, from byte ", offset,
                      " on, are no whole record: what was written there is "
                      "missing");
}

absl::StatusOr<std::unique_ptr<CommitLogReader>> CommitLogReader::Open(
    const std::string& path, FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path, files));
  std::unique_ptr<CommitLogReader> reader(new CommitLogReader(std::move(file)));
  SLUICE_ASSIGN_OR_RETURN(const auto first, reader->Next());
  if (!first.has_value()) return reader;
  if (!first->has_header()) {
    return absl::DataLossError(
        absl::StrCat(path, ": does not begin with a header"));
  }
  reader->header_ = first->header();
  return reader;
}

absl::StatusOr<std::unique_ptr<CommitLogReader>> CommitLogReader::OpenAt(
    const std::string& path, int64_t whole_bytes, FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path, files));
  std::unique_ptr<CommitLogReader> reader(new CommitLogReader(std::move(file)));
  reader->read_ = std::min(whole_bytes, reader->file_.size());
  reader->position_ = reader->whole_bytes_ = reader->read_;
  return reader;
}

absl::string_view CommitLogReader::rest() const {
  return absl::string_view(buffer_).substr(begin_);
}

absl::Status CommitLogReader::Fill(size_t bytes) {
  const int64_t left = file_.size() - read_;
  if (left == 0 || rest().size() >= bytes) return absl::OkStatus();
  buffer_.erase(0, std::exchange(begin_, 0));
  const size_t had = buffer_.size();
  const int64_t more = std::min<int64_t>(
      left, static_cast<int64_t>(std::max(bytes - had, kReadBytes)));
  buffer_.resize(had + more);
  const absl::Status status = file_.ReadAt(read_, more, &buffer_[had]);
  if (!status.ok()) {
    buffer_.resize(had);
    return status;
  }
  read_ += more;
  return absl::OkStatus();
}

absl::StatusOr<size_t> CommitLogReader::WholeRecord(size_t most,
                                                    proto::LogRecord* record) {
  SLUICE_RETURN_IF_ERROR(Fill(kPrefixBytes));
  if (rest().size() < kPrefixBytes) return 0;
  const size_t length = ReadLittleEndian(rest().substr(0, kLengthBytes));
  // No record is empty; zeros are where nothing has been written.
  if (length == 0 || length > most) return 0;
  SLUICE_RETURN_IF_ERROR(Fill(kPrefixBytes + length));
  if (rest().size() < kPrefixBytes + length) return 0;
  const absl::string_view payload = rest().substr(kPrefixBytes, length);
  const uint64_t checksum = ReadLittleEndian(
      rest().substr(kLengthBytes, kPrefixBytes - kLengthBytes));
  if (XXH3_64bits(payload.data(), payload.size()) != checksum ||
      !record->ParseFromArray(payload.data(), static_cast<int>(length))) {
    return 0;
  }
  return kPrefixBytes + length;
}

// Nothing but a whole record proves that something came behind what cannot be
// read: then the disk, or somebody, has damaged what had been written. A
// checksum of 64 bits does not come about by chance.
absl::Status CommitLogReader::EndOrDamage() {
  TornTail tail{.path = file_.path(), .offset = position_};
  proto::LogRecord record;
  while (true) {
    SLUICE_RETURN_IF_ERROR(Fill(1));
    if (rest().empty()) break;
    ++begin_;
    ++position_;
    SLUICE_RETURN_IF_ERROR(Fill(kLengthBytes));
    // Most of what the disk has not written: no record has this length.
    if (absl::StartsWith(rest(), absl::string_view("\0\0\0\0", 4))) continue;
    SLUICE_ASSIGN_OR_RETURN(const size_t size,
                            WholeRecord(kMostToLookFor, &record));
    if (size == 0) continue;
    return absl::DataLossError(absl::StrCat(
        file_.path(), ": the record at byte ", tail.offset,
        " is damaged: its length or checksum is wrong, and a whole one follows "
        "at byte ",
        position_));
  }
  tail.bytes = position_ - tail.offset;
  torn_ = tail;
  return absl::OkStatus();
}

absl::StatusOr<std::optional<proto::LogRecord>> CommitLogReader::Next() {
  SLUICE_RETURN_IF_ERROR(Fill(1));
  if (rest().empty()) return std::nullopt;
  proto::LogRecord record;
  SLUICE_ASSIGN_OR_RETURN(const size_t size,
                          WholeRecord(kMaxRecordBytes, &record));
  if (size == 0) {
    SLUICE_RETURN_IF_ERROR(EndOrDamage());
    return std::nullopt;
  }
  begin_ += size;
  position_ += static_cast<int64_t>(size);
  whole_bytes_ = position_;
  if (record.has_commit() && header_.has_value()) {
    WriteOutBases(*header_, record.mutable_commit());
  }
  return record;
}

absl::StatusOr<CommitLog> ReadCommitLog(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(const auto reader, CommitLogReader::Open(path));
  if (!reader->header().has_value()) {
    return absl::DataLossError(
        absl::StrCat(path, ": does not begin with a header"));
  }
  CommitLog log;
  log.header = *reader->header();
  while (true) {
    SLUICE_ASSIGN_OR_RETURN(auto record, reader->Next());
    if (!record.has_value()) break;
    log.records.push_back(*std::move(record));
  }
  log.torn = reader->torn();
  return log;
}

}  // namespace sluice

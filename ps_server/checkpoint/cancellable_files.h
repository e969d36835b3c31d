#ifndef SLUICE_PS_SERVER_CHECKPOINT_CANCELLABLE_FILES_H_
#define SLUICE_PS_SERVER_CHECKPOINT_CANCELLABLE_FILES_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/files/file_operations.h"

namespace sluice {

// Another FileOperations that can be cancelled. After that every operation that
// writes returns kCancelled, so a writer ends at its next step, however much it
// has left to do. Closing, truncating and removing still work, so that the
// writer can clean up.
//
// Bytes are synced every kBytesAtOnce instead of all at the end. So no single
// step takes longer than the disk needs for kBytesAtOnce and the bytes of one
// call.
//
// Thread-safe; only one file at a time may be written.
class CancellableFiles final : public FileOperations {
 public:
  static constexpr int64_t kBytesAtOnce = int64_t{64} << 20;

  // `files` must outlive this.
  explicit CancellableFiles(FileOperations* files) : files_(*files) {}

  void Cancel() { cancelled_ = true; }

  absl::StatusOr<int> Create(const std::string& path) override {
    if (cancelled_) return Cancelled(path);
    unsynced_ = 0;
    return files_.Create(path);
  }
  absl::StatusOr<int> CreateNew(const std::string& path) override {
    if (cancelled_) return Cancelled(path);
    unsynced_ = 0;
    return files_.CreateNew(path);
  }
  absl::Status Write(int file, const std::string& path,
                     absl::string_view data) override {
    if (cancelled_) return Cancelled(path);
    const absl::Status written = files_.Write(file, path, data);
    unsynced_ += static_cast<int64_t>(data.size());
    if (!written.ok() || unsynced_ < kBytesAtOnce) return written;
    unsynced_ = 0;
    return Sync(file, path);
  }
  absl::Status Sync(int file, const std::string& path) override {
    return cancelled_ ? Cancelled(path) : files_.Sync(file, path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return cancelled_ ? Cancelled(to) : files_.Rename(from, to);
  }
  absl::Status MakeFolder(const std::string& path) override {
    return cancelled_ ? Cancelled(path) : files_.MakeFolder(path);
  }
  absl::Status SyncFolder(const std::string& path) override {
    return cancelled_ ? Cancelled(path) : files_.SyncFolder(path);
  }
  absl::Status Truncate(int file, const std::string& path,
                        int64_t bytes) override {
    return files_.Truncate(file, path, bytes);
  }
  absl::Status Close(int file, const std::string& path) override {
    return files_.Close(file, path);
  }
  absl::Status Remove(const std::string& path) override {
    return files_.Remove(path);
  }
  absl::StatusOr<int> OpenToRead(const std::string& path) override {
    return files_.OpenToRead(path);
  }
  absl::StatusOr<int64_t> ReadAt(int file, const std::string& path,
                                 int64_t offset, absl::Span<char> to) override {
    return files_.ReadAt(file, path, offset, to);
  }
  absl::StatusOr<std::vector<std::string>> List(
      const std::string& folder) override {
    return files_.List(folder);
  }

 private:
  static absl::Status Cancelled(const std::string& path) {
    return absl::CancelledError(
        path + ": not written any further: the generation is over");
  }

  FileOperations& files_;
  std::atomic<bool> cancelled_ = false;
  // Bytes written to the file and not synced.
  std::atomic<int64_t> unsynced_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_CHECKPOINT_CANCELLABLE_FILES_H_

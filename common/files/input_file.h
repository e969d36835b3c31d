#ifndef SLUICE_COMMON_FILES_INPUT_FILE_H_
#define SLUICE_COMMON_FILES_INPUT_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/files/file_operations.h"

namespace sluice {

// A regular file, opened for reading at any position. While it is open the file
// must not be written to; it may be replaced.
//
// Thread-compatible.
class InputFile {
 public:
  // kNotFound: no such file. kInvalidArgument: not a regular file.
  // kUnavailable: the system cannot say. Messages name the path. `files` must
  // outlive the file.
  static absl::StatusOr<InputFile> Open(
      const std::string& path, FileOperations* files = FileOperations::Real());
  InputFile(InputFile&& other);
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  // In bytes, when it was opened.
  int64_t size() const { return identity_.size; }

  // What tells it from another file in its place, and from itself before it was
  // written to.
  struct Identity {
    uint64_t device = 0, inode = 0;
    int64_t size = 0;
    int64_t modified_ns = 0;  // Since the epoch.
    bool operator==(const Identity&) const = default;
  };
  const Identity& identity() const { return identity_; }

  // Reads `bytes` at `offset` into `to`. kUnavailable, also if the file is
  // shorter than it was; the message names the path and the position.
  absl::Status ReadAt(int64_t offset, int64_t bytes, void* to) const;

 private:
  InputFile(std::string path, FileOperations* files);

  std::string path_;
  FileOperations* files_;
  int fd_ = -1;
  Identity identity_;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_FILES_INPUT_FILE_H_

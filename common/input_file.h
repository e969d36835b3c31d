#ifndef SLUICE_COMMON_INPUT_FILE_H_
#define SLUICE_COMMON_INPUT_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/file_operations.h"

namespace sluice {

// A regular file, opened for reading at any place. It must not be written to
// meanwhile; it may be replaced.
//
// Thread-compatible.
class InputFile {
 public:
  // kNotFound where there is none; kInvalidArgument for what is no file;
  // kUnavailable when the system cannot say. Each names the path. `files`
  // outlives the file.
  static absl::StatusOr<InputFile> Open(
      const std::string& path, FileOperations* files = FileOperations::Real());
  InputFile(InputFile&& other);
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // Bytes, as it was opened.

  // Reads `bytes` at `offset` into `to`. kUnavailable, also where the file is
  // shorter than it was: names the path and byte.
  absl::Status ReadAt(int64_t offset, int64_t bytes, void* to) const;

 private:
  InputFile(std::string path, FileOperations* files);

  std::string path_;
  FileOperations* files_;
  int fd_ = -1;
  int64_t size_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_INPUT_FILE_H_

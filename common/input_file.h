#ifndef SLUICE_COMMON_INPUT_FILE_H_
#define SLUICE_COMMON_INPUT_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice {

// A regular file, opened for reading at any place. It must not be written to
// meanwhile; it may be replaced.
//
// Thread-compatible.
class InputFile {
 public:
  // kNotFound when it cannot be opened; kInvalidArgument for what is no file.
  // Each names the path.
  static absl::StatusOr<InputFile> Open(const std::string& path);
  InputFile(InputFile&& other);
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  int64_t size() const { return size_; }  // Bytes, as it was opened.

  // Reads `bytes` at `offset` into `to`. kDataLoss: names the path and byte.
  absl::Status ReadAt(int64_t offset, int64_t bytes, void* to) const;

 private:
  explicit InputFile(std::string path);

  std::string path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_INPUT_FILE_H_

#ifndef SLUICE_COMMON_FILES_APPENDED_FILE_H_
#define SLUICE_COMMON_FILES_APPENDED_FILE_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// A text file that others read while it grows, and may rename. Only this
// process may write to it. Thread-compatible.
class AppendedFile {
 public:
  // Creates `path`, or goes on with it. kUnavailable names it.
  static absl::StatusOr<AppendedFile> Open(const std::string& path);
  AppendedFile(AppendedFile&& other);
  AppendedFile& operator=(AppendedFile&&) = delete;
  ~AppendedFile();

  // Appends all of `text`, or nothing: a disk that is full leaves no part of a
  // line. After an error (kUnavailable, names the file) it may be called again.
  absl::Status Append(absl::string_view text);

 private:
  AppendedFile(std::string path, int file)
      : path_(std::move(path)), file_(file) {}

  std::string path_;
  int file_;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_FILES_APPENDED_FILE_H_

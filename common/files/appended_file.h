#ifndef SLUICE_COMMON_FILES_APPENDED_FILE_H_
#define SLUICE_COMMON_FILES_APPENDED_FILE_H_

#include <fstream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace sluice {

// A text file that others read while it grows. Only this process may write to
// it. Thread-compatible.
class AppendedFile {
 public:
  // Creates `path`, or goes on with it. kUnavailable names it.
  static absl::StatusOr<AppendedFile> Open(const std::string& path);

  // Appends all of `text`, or nothing: a disk that is full leaves no part of a
  // line. After an error (kUnavailable, names the file) it may be called again.
  absl::Status Append(absl::string_view text);

 private:
  AppendedFile(std::string path, std::ofstream out)
      : path_(std::move(path)), out_(std::move(out)) {}

  std::string path_;
  std::ofstream out_;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_FILES_APPENDED_FILE_H_

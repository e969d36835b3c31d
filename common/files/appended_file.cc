// The file stays open, so a size is asked of, and a cut is made in, the file
// that was written to, whatever has become of its path.
#include "common/files/appended_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

absl::Status Failed(const std::string& path, absl::string_view what) {
  const int reason = errno;
  return absl::UnavailableError(
      absl::StrCat(path, ": ", what, ": ", std::strerror(reason)));
}

bool WriteAll(int file, absl::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

AppendedFile::AppendedFile(AppendedFile&& other)
    : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)) {}

AppendedFile::~AppendedFile() {
  if (file_ >= 0) ::close(file_);
}

absl::StatusOr<AppendedFile> AppendedFile::Open(const std::string& path) {
  const int file =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (file < 0) return Failed(path, "cannot be created");
  return AppendedFile(path, file);
}

absl::Status AppendedFile::Append(absl::string_view text) {
  struct stat before = {};
  if (::fstat(file_, &before) != 0) return Failed(path_, "cannot be written");
  if (WriteAll(file_, text)) return absl::OkStatus();
  const absl::Status failed = Failed(path_, "cannot be written");
  // What has been written of it must not stay.
  if (::ftruncate(file_, before.st_size) != 0) {
    return Failed(path_, "has a part of a line, and cannot be cut");
  }
  return failed;
}

}  // namespace sluice

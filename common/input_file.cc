#include "common/input_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace sluice {

InputFile::InputFile(std::string path) : path_(std::move(path)) {}

InputFile::InputFile(InputFile&& other)
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_) {}

InputFile::~InputFile() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<InputFile> InputFile::Open(const std::string& path) {
  InputFile file(path);
  file.fd_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat stat = {};
  if (file.fd_ < 0 || fstat(file.fd_, &stat) != 0) {
    return absl::NotFoundError(
        absl::StrCat(path, ": cannot be opened: ", std::strerror(errno)));
  }
  if (!S_ISREG(stat.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is no file"));
  }
  file.size_ = stat.st_size;
  return file;
}

absl::Status InputFile::ReadAt(int64_t offset, int64_t bytes, void* to) const {
  char* at = static_cast<char*>(to);
  while (bytes > 0) {
    const ssize_t got = pread(fd_, at, static_cast<size_t>(bytes), offset);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      return absl::DataLossError(
          absl::StrCat(path_, ": cannot be read at byte ", offset, ": ",
                       got == 0 ? "it ends there, it was longer before"
                                : std::strerror(errno)));
    }
    at += got;
    offset += got;
    bytes -= got;
  }
  return absl::OkStatus();
}

}  // namespace sluice

#include "common/files/input_file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice {

InputFile::InputFile(std::string path, FileOperations* files)
    : path_(std::move(path)), files_(files) {}

InputFile::InputFile(InputFile&& other)
    : path_(std::move(other.path_)),
      files_(other.files_),
      fd_(std::exchange(other.fd_, -1)),
      identity_(other.identity_) {}

InputFile::~InputFile() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<InputFile> InputFile::Open(const std::string& path,
                                          FileOperations* files) {
  InputFile file(path, files);
  SLUICE_ASSIGN_OR_RETURN(file.fd_, files->OpenToRead(path));
  struct stat stat = {};
  if (fstat(file.fd_, &stat) != 0) {
    return absl::UnavailableError(
        absl::StrCat(path, ": cannot be read: fstat: ", std::strerror(errno)));
  }
  if (!S_ISREG(stat.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is no file"));
  }
  file.identity_ = {
      .device = stat.st_dev,
      .inode = stat.st_ino,
      .size = stat.st_size,
      .modified_ns =
          stat.st_mtim.tv_sec * int64_t{1'000'000'000} + stat.st_mtim.tv_nsec};
  return file;
}

absl::Status InputFile::ReadAt(int64_t offset, int64_t bytes, void* to) const {
  SLUICE_ASSIGN_OR_RETURN(
      const int64_t got,
      files_->ReadAt(
          fd_, path_, offset,
          absl::MakeSpan(static_cast<char*>(to), static_cast<size_t>(bytes))));
  if (got == bytes) return absl::OkStatus();
  // Length and contents contradict each other, so one of the two is stale.
  return absl::UnavailableError(
      absl::StrCat(path_, ": cannot be read at byte ", offset + got,
                   ": it ends there, it was longer before"));
}

}  // namespace sluice

#include "common/atomic_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

absl::Status SystemError(const std::string& path, absl::string_view operation) {
  return absl::UnavailableError(
      absl::StrCat(path, ": ", operation, ": ", std::strerror(errno)));
}

absl::Status WriteAll(int fd, absl::string_view data, const std::string& path) {
  while (!data.empty()) {
    const ssize_t n = ::write(fd, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError(path, "write");
    data.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status WriteAndSync(const std::string& path,
                          absl::Span<const absl::string_view> pieces) {
  const int fd =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return SystemError(path, "open");
  absl::Status status;
  for (const absl::string_view piece : pieces) {
    status = WriteAll(fd, piece, path);
    if (!status.ok()) break;
  }
  if (status.ok() && ::fsync(fd) != 0) status = SystemError(path, "fsync");
  if (::close(fd) != 0 && status.ok()) status = SystemError(path, "close");
  return status;
}

// Makes the rename itself survive a power failure.
absl::Status SyncFolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  const std::string folder =
      slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return SystemError(folder, "open");
  absl::Status status;
  if (::fsync(fd) != 0) status = SystemError(folder, "fsync");
  ::close(fd);
  return status;
}

}  // namespace

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces) {
  const std::string temporary = absl::StrCat(path, ".tmp.", ::getpid());
  absl::Status status = WriteAndSync(temporary, pieces);
  if (status.ok() && std::rename(temporary.c_str(), path.c_str()) != 0) {
    status = SystemError(path, "rename");
  }
  if (!status.ok()) {
    ::unlink(temporary.c_str());
    return status;
  }
  return SyncFolderOf(path);
}

}  // namespace sluice

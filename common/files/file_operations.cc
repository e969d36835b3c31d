// Errors fall into classes that callers treat differently: "not there"
// (kNotFound), "no room" (kResourceExhausted) and "the system cannot say"
// (kUnavailable). The third is never taken for an empty disk. A path that no
// file can have is a mistake of whoever wrote it (kInvalidArgument).
//
// "Not there" can be wrong on a network file system, whose client caches names.
// So a caller that is about to conclude from a missing file that there is no
// checkpoint asks ProveMissing for a second answer from the folder's listing.
// For run/state/manifest that means: list run/state; if run/state itself seems
// to be missing, list run; and so on upwards.
#include "common/files/file_operations.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

absl::Status SystemError(const std::string& path, absl::string_view operation) {
  const int reason = errno;
  const std::string text =
      absl::StrCat(path, ": ", operation, ": ", std::strerror(reason));
  return reason == ENOSPC || reason == EDQUOT
             ? absl::ResourceExhaustedError(text)
             : absl::UnavailableError(text);
}

absl::Status ReadError(const std::string& path, absl::string_view operation) {
  const std::string text =
      absl::StrCat(path, ": cannot be opened: ", std::strerror(errno));
  switch (errno) {
    case ENOENT:
      return absl::NotFoundError(text);
    case ENOTDIR:
    case ENAMETOOLONG:
    case ELOOP:
      return absl::InvalidArgumentError(text);
  }
  return SystemError(path, absl::StrCat("cannot be read: ", operation));
}

}  // namespace

FileOperations* FileOperations::Real() {
  static FileOperations* const real = new FileOperations();
  return real;
}

absl::StatusOr<int> FileOperations::Create(const std::string& path) {
  const int file =
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0) return SystemError(path, "open");
  return file;
}

absl::StatusOr<int> FileOperations::CreateNew(const std::string& path) {
  const int file = ::open(
      path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  if (file >= 0) return file;
  const absl::Status failed = SystemError(path, "open");
  return errno == EEXIST ? absl::AlreadyExistsError(failed.message()) : failed;
}

absl::Status FileOperations::Truncate(int file, const std::string& path,
                                      int64_t bytes) {
  return ::ftruncate(file, bytes) == 0 ? absl::OkStatus()
                                       : SystemError(path, "truncate");
}

absl::Status FileOperations::Write(int file, const std::string& path,
                                   absl::string_view data) {
  while (!data.empty()) {
    const ssize_t n = ::write(file, data.data(), data.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return SystemError(path, "write");
    data.remove_prefix(static_cast<size_t>(n));
  }
  return absl::OkStatus();
}

absl::Status FileOperations::Sync(int file, const std::string& path) {
  return ::fsync(file) == 0 ? absl::OkStatus() : SystemError(path, "fsync");
}

absl::Status FileOperations::Close(int file, const std::string& path) {
  return ::close(file) == 0 ? absl::OkStatus() : SystemError(path, "close");
}

void FileOperations::Hold(int file) { ::flock(file, LOCK_EX | LOCK_NB); }

bool FileOperations::IsHeld(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (file < 0) return false;
  const bool held =
      ::flock(file, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  ::close(file);
  return held;
}

absl::Status FileOperations::Rename(const std::string& from,
                                    const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) == 0) return absl::OkStatus();
  const bool missing = errno == ENOENT;
  const absl::Status failed = SystemError(to, "rename");
  return missing ? absl::NotFoundError(failed.message()) : failed;
}

absl::Status FileOperations::MakeFolder(const std::string& path) {
  struct stat found = {};
  if (::mkdir(path.c_str(), 0777) == 0) return absl::OkStatus();
  const int reason = errno;
  if (reason == EEXIST && ::stat(path.c_str(), &found) == 0 &&
      S_ISDIR(found.st_mode)) {
    return absl::OkStatus();
  }
  errno = reason;
  return SystemError(path, "mkdir");
}

absl::Status FileOperations::SyncFolder(const std::string& path) {
  const int folder = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return SystemError(path, "open");
  absl::Status status;
  if (::fsync(folder) != 0) status = SystemError(path, "fsync");
  ::close(folder);
  return status;
}

absl::Status FileOperations::Remove(const std::string& path) {
  return std::remove(path.c_str()) == 0 || errno == ENOENT
             ? absl::OkStatus()
             : SystemError(path, "remove");
}

absl::StatusOr<int> FileOperations::OpenToRead(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0) return ReadError(path, "open");
  return file;
}

absl::StatusOr<int64_t> FileOperations::ReadAt(int file,
                                               const std::string& path,
                                               int64_t offset,
                                               absl::Span<char> to) {
  int64_t done = 0;
  while (done < std::ssize(to)) {
    const ssize_t got =
        ::pread(file, to.data() + done, to.size() - done, offset + done);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      return SystemError(
          path, absl::StrCat("cannot be read at byte ", offset + done));
    }
    if (got == 0) break;
    done += got;
  }
  return done;
}

absl::StatusOr<bool> FileOperations::IsFolder(const std::string& path) {
  struct stat found = {};
  if (::stat(path.c_str(), &found) != 0) return ReadError(path, "stat");
  return S_ISDIR(found.st_mode);
}

absl::StatusOr<std::vector<std::string>> FileOperations::List(
    const std::string& folder) {
  const std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(folder.c_str()),
                                                 ::closedir);
  if (open == nullptr) return ReadError(folder, "opendir");
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(open.get());
    if (entry == nullptr) break;
    const absl::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  // After an error the list may be incomplete.
  if (errno != 0) return SystemError(folder, "cannot be read: readdir");
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status ProveMissing(const std::string& folder, const std::string& name,
                          FileOperations* files) {
  const auto names = files->List(folder);
  if (absl::IsNotFound(names.status())) {
    const size_t slash = folder.rfind('/');
    if (slash == 0 || folder == ".") return absl::OkStatus();
    return slash == std::string::npos
               ? ProveMissing(".", folder, files)
               : ProveMissing(folder.substr(0, slash), folder.substr(slash + 1),
                              files);
  }
  SLUICE_RETURN_IF_ERROR(names.status());
  if (!std::binary_search(names->begin(), names->end(), name)) {
    return absl::OkStatus();
  }
  return absl::UnavailableError(absl::StrCat(
      folder, "/", name,
      ": cannot be read: its folder lists it, opening it says that there is "
      "no such file"));
}

absl::Status MakeFolders(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat(path, ": cannot be made: ", error.message()));
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash + 1);
}

}  // namespace sluice

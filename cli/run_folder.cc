#include "cli/run_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace sluice {
namespace {

namespace fs = std::filesystem;

absl::Status FolderError(const std::string& path,
                         const std::error_code& error) {
  const std::string text =
      absl::StrCat("making the run folder ", path, ": ", error.message());
  for (const std::errc wrong_path :
       {std::errc::not_a_directory, std::errc::filename_too_long,
        std::errc::too_many_symbolic_link_levels}) {
    if (error == wrong_path) return absl::InvalidArgumentError(text);
  }
  return absl::UnavailableError(text);
}

absl::StatusOr<std::string> MakeWanted(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return FolderError(path, error);
  const bool empty = fs::is_empty(path, error);
  if (error) return FolderError(path, error);
  if (!empty) {
    return absl::AlreadyExistsError(absl::StrCat(
        "the run folder ", path, " is not empty; name another with --run-dir"));
  }
  return path;
}

// A job's name may hold characters that a file name cannot.
std::string FileName(std::string name) {
  std::replace(name.begin(), name.end(), '/', '_');
  return name;
}

}  // namespace

absl::StatusOr<std::string> MakeRunFolder(const std::string& wanted,
                                          const std::string& name) {
  if (!wanted.empty()) return MakeWanted(wanted);
  std::error_code error;
  fs::create_directories("runs", error);
  if (error) return FolderError("runs", error);
  for (int n = 1;; ++n) {
    const std::string path = absl::StrCat("runs/", FileName(name), "-", n);
    // False without an error: the folder exists, so another run has it.
    if (fs::create_directory(path, error)) return path;
    if (error) return FolderError(path, error);
  }
}

int ExitCodeOfRefusal(const absl::Status& status) {
  const bool machine = absl::IsUnavailable(status) ||
                       absl::IsResourceExhausted(status) ||
                       absl::IsInternal(status);
  return machine ? 1 : 2;
}

LeadAddress LeadAddressOf(const std::string& run_dir) {
  std::ifstream file(absl::StrCat(run_dir, "/addresses"));
  LeadAddress address;
  std::string line;
  while (std::getline(file, line)) {
    const std::vector<std::string> words = absl::StrSplit(line, ' ');
    if (words.size() != 2) continue;
    if (words[0] == "coordinator") address.host_port = words[1];
    if (words[0] == "run") address.run_id = words[1];
  }
  return address;
}

std::string FailureFileOf(const std::string& run_dir) {
  return absl::StrCat(run_dir, "/failure.txt");
}

absl::Status CheckMayRead(const std::string& folder) {
  std::error_code error;
  const fs::file_status found = fs::status(folder, error);
  if (fs::exists(found) && !fs::is_directory(found)) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": is no folder"));
  }
  if (faccessat(AT_FDCWD, folder.c_str(), R_OK | X_OK, AT_EACCESS) == 0 ||
      errno != EACCES) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(
      absl::StrCat(folder,
                   ": may not be read by this user: run folders are their "
                   "owner's, unless the job's output.mode says otherwise"));
}

std::optional<std::string> TextOfFile(const std::string& path, int64_t offset) {
  std::ifstream in(path, std::ios::binary);
  in.seekg(offset);
  std::string text;
  char part[4096];
  // Not through istreambuf_iterator, which throws when a read fails: of a
  // folder, or of /proc/PID where the process has just ended.
  while (in.read(part, sizeof(part)) || in.gcount() > 0) {
    text.append(part, static_cast<size_t>(in.gcount()));
  }
  if (!in.eof()) return std::nullopt;
  return text;
}

std::string TailOfFile(const std::string& path, int lines,
                       const std::string& indent) {
  constexpr std::streamoff kMostBytes = 16 << 10;
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  const std::streamoff size = file ? std::streamoff(file.tellg()) : 0;
  if (size <= 0) return "";
  file.seekg(std::max<std::streamoff>(0, size - kMostBytes));
  std::ostringstream text;
  text << file.rdbuf();
  std::vector<std::string> all =
      absl::StrSplit(text.str(), '\n', absl::SkipEmpty());
  std::string tail;
  const size_t count = std::min<size_t>(lines, all.size());
  for (size_t i = all.size() - count; i < all.size(); ++i) {
    absl::StrAppend(&tail, indent, all[i], "\n");
  }
  return tail;
}

}  // namespace sluice

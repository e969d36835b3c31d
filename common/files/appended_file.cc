#include "common/files/appended_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace sluice {

absl::StatusOr<AppendedFile> AppendedFile::Open(const std::string& path) {
  std::ofstream out(path, std::ios::app);
  if (!out) {
    return absl::UnavailableError(
        absl::StrCat(path, ": cannot be created: ", std::strerror(errno)));
  }
  return AppendedFile(path, std::move(out));
}

absl::Status AppendedFile::Append(absl::string_view text) {
  std::error_code ignored;
  const auto size = std::filesystem::file_size(path_, ignored);
  out_.write(text.data(), static_cast<std::streamsize>(text.size()));
  out_.flush();
  if (out_) return absl::OkStatus();
  const std::string why = std::strerror(errno);
  // What has been written of it must not stay, nor what the stream still has.
  out_ = std::ofstream();
  std::filesystem::resize_file(path_, size, ignored);
  out_.open(path_, std::ios::app);
  return absl::UnavailableError(
      absl::StrCat(path_, ": cannot be written: ", why));
}

}  // namespace sluice

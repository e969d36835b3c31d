// Samples do not overlap, but each needs the byte after it as its last target.
// 10 bytes with a length of 3 are (10 - 1) / 3 = 3 samples: bytes 0-2, 3-5 and
// 6-8, with the targets 1-3, 4-6 and 7-9.
#include "common/formats/text_file.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/files/input_file.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

absl::StatusOr<InputFile> OpenText(const std::string& path) {
  SLUICE_ASSIGN_OR_RETURN(InputFile file, InputFile::Open(path));
  if (file.size() > 0) return file;
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": is empty, expected text"));
}

}  // namespace

absl::StatusOr<int64_t> CountTextSamples(const TextPaths& paths,
                                         int64_t length) {
  int64_t bytes = 0;
  for (const std::string& path : paths) {
    SLUICE_ASSIGN_OR_RETURN(const InputFile file, OpenText(path));
    bytes += file.size();
  }
  if (bytes > length) return (bytes - 1) / length;
  return absl::InvalidArgumentError(absl::StrCat(
      absl::StrJoin(paths, ", "), ": has ", bytes, " bytes, expected at least ",
      length + 1, ", a sample of ", length, " and the byte behind it"));
}

absl::StatusOr<std::vector<uint8_t>> ReadTextFiles(const TextPaths& paths) {
  std::vector<uint8_t> bytes;
  for (const std::string& path : paths) {
    SLUICE_ASSIGN_OR_RETURN(const InputFile file, OpenText(path));
    const size_t before = bytes.size();
    bytes.resize(before + file.size());
    SLUICE_RETURN_IF_ERROR(file.ReadAt(0, file.size(), bytes.data() + before));
  }
  return bytes;
}

}  // namespace sluice

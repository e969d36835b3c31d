#include "common/files/atomic_file.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/secret.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// Bytes of chance in a temporary file's name: that of two containers on a
// shared folder, whose processes both have the number 1, differ.
constexpr int kChanceBytes = 8;

using Next = std::function<absl::StatusOr<std::optional<absl::string_view>>()>;

absl::Status WriteAll(int file, const std::string& path, const Next& next,
                      FileOperations* files) {
  while (true) {
    SLUICE_ASSIGN_OR_RETURN(const auto piece, next());
    if (!piece.has_value()) return absl::OkStatus();
    SLUICE_RETURN_IF_ERROR(files->Write(file, path, *piece));
  }
}

absl::Status WriteAndSync(const std::string& path, const Next& next,
                          FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(const int file, files->Create(path));
  absl::Status status = WriteAll(file, path, next, files);
  if (status.ok()) status = files->Sync(file, path);
  const absl::Status closed = files->Close(file, path);
  return status.ok() ? closed : status;
}

}  // namespace

absl::Status WriteFileAtomically(const std::string& path, const Next& next,
                                 FileOperations* files) {
  const std::string temporary = absl::StrCat(
      path, ".tmp.", absl::BytesToHexString(DrawSecret(kChanceBytes)));
  absl::Status status = WriteAndSync(temporary, next, files);
  if (status.ok()) status = files->Rename(temporary, path);
  if (!status.ok()) {
    // The first error tells what is wrong; a second one adds nothing.
    files->Remove(temporary).IgnoreError();
    return status;
  }
  // Makes the rename itself survive a power failure.
  return files->SyncFolder(FolderOf(path));
}

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces,
                                 FileOperations* files) {
  size_t at = 0;
  return WriteFileAtomically(
      path,
      [&]() -> absl::StatusOr<std::optional<absl::string_view>> {
        if (at == pieces.size()) return std::nullopt;
        return pieces[at++];
      },
      files);
}

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces) {
  FileOperations files;
  return WriteFileAtomically(path, pieces, &files);
}

}  // namespace sluice

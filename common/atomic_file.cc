#include "common/atomic_file.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

absl::Status WriteAndSync(const std::string& path,
                          absl::Span<const absl::string_view> pieces,
                          FileOperations* files) {
  SLUICE_ASSIGN_OR_RETURN(const int file, files->Create(path));
  absl::Status status;
  for (const absl::string_view piece : pieces) {
    status = files->Write(file, path, piece);
    if (!status.ok()) break;
  }
  if (status.ok()) status = files->Sync(file, path);
  const absl::Status closed = files->Close(file, path);
  return status.ok() ? closed : status;
}

}  // namespace

absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces,
                                 FileOperations* files) {
  const std::string temporary = absl::StrCat(path, ".tmp.", ::getpid());
  absl::Status status = WriteAndSync(temporary, pieces, files);
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
                                 absl::Span<const absl::string_view> pieces) {
  FileOperations files;
  return WriteFileAtomically(path, pieces, &files);
}

}  // namespace sluice

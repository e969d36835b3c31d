#ifndef SLUICE_COMMON_FILES_ATOMIC_FILE_H_
#define SLUICE_COMMON_FILES_ATOMIC_FILE_H_

#include <functional>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/files/file_operations.h"

namespace sluice {

// Writes `pieces`, one after the other, as the file `path`, so that a reader
// sees either all of the old content or all of the new one, even after a power
// failure. The file is written under a name of its own (`path`.tmp., and 16
// hexadecimal digits), fsynced and renamed, and the folder is fsynced. Of
// several writers of a path, on whatever machines, the last one's is left.
//
// kUnavailable names the file, the operation and the system's reason, also if
// the folder is missing. Then the temporary file has been removed and the old
// content is untouched, unless the last step (fsync of the folder) failed.
// Blocks until the file is on the disk.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces);
// The same with the operations of `files`.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces,
                                 FileOperations* files);
// The same of pieces that `next` returns until there are none; each is used
// before the next one is asked for. Its errors end the writing, and leave the
// old content.
absl::Status WriteFileAtomically(
    const std::string& path,
    const std::function<absl::StatusOr<std::optional<absl::string_view>>()>&
        next,
    FileOperations* files);

}  // namespace sluice

#endif  // SLUICE_COMMON_FILES_ATOMIC_FILE_H_

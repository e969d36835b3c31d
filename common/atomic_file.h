#ifndef SLUICE_COMMON_ATOMIC_FILE_H_
#define SLUICE_COMMON_ATOMIC_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/file_operations.h"

namespace sluice {

// Writes `pieces`, one after the other, as the file `path`: whoever opens it
// sees the old content or all of the new one, also after a power failure.
// Written as `path`.tmp.PID, fsynced, renamed, and the folder fsynced; so one
// thread of a process at a time may write a path.
//
// Errors: kUnavailable, also where the folder is missing, names the file, the
// operation and the system's reason. The temporary file is then gone and the
// old content untouched, unless it was the last step that failed. Blocks until
// the file is on the disk.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces);
// The same by way of `files`.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces,
                                 FileOperations* files);

}  // namespace sluice

#endif  // SLUICE_COMMON_ATOMIC_FILE_H_

#ifndef SLUICE_COMMON_ATOMIC_FILE_H_
#define SLUICE_COMMON_ATOMIC_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace sluice {

// Writes `pieces`, one after the other, as the file `path`: whoever opens it
// sees the old content or all of the new one, also after a power failure.
// Written under a temporary name beside it, fsynced, renamed. kUnavailable
// names the file, the operation and the system's reason; the temporary file is
// then gone and the old content untouched. Blocks until it is on the disk.
absl::Status WriteFileAtomically(const std::string& path,
                                 absl::Span<const absl::string_view> pieces);

}  // namespace sluice

#endif  // SLUICE_COMMON_ATOMIC_FILE_H_

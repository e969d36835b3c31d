#ifndef SLUICE_COMMON_FILES_FILE_MODE_H_
#define SLUICE_COMMON_FILES_FILE_MODE_H_

#include <optional>
#include <string>

// Permissions of a run's files: output.mode. Files are created with all
// permissions, less those in the process's umask.
namespace sluice {

// The permission bits of "0640". Nullopt if it is not such a number, if the
// owner may not read and write, or if anyone may execute.
std::optional<int> ParseFileMode(const std::string& mode);

// From now on this process creates files with `mode`, and folders that can be
// entered by everyone who may read them. Call before other threads exist.
// REQUIRES: `mode` is that of a valid job.
void LetRead(const std::string& mode);

}  // namespace sluice

#endif  // SLUICE_COMMON_FILES_FILE_MODE_H_

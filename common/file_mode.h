#ifndef SLUICE_COMMON_FILE_MODE_H_
#define SLUICE_COMMON_FILE_MODE_H_

#include <optional>
#include <string>

// Who may read what a run writes: output.mode. Whatever is created is created
// with all permissions, less those that the process masks.
namespace sluice {

// Permission bits of "0640"; nullopt where it is no such number, or the owner
// may not read and write, or anybody execute.
std::optional<int> ParseFileMode(const std::string& mode);

// From now on this process creates files with `mode`, and folders that whoever
// may read them may enter. Call before the first thread. REQUIRES: `mode` is
// that of a valid job.
void LetRead(const std::string& mode);

}  // namespace sluice

#endif  // SLUICE_COMMON_FILE_MODE_H_

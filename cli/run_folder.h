#ifndef SLUICE_CLI_RUN_FOLDER_H_
#define SLUICE_CLI_RUN_FOLDER_H_

#include <string>

#include "absl/status/statusor.h"

namespace sluice {

// Makes the folder of a run and returns its path. `wanted` is made with its
// parents; one that holds anything is refused (kAlreadyExists). With an empty
// `wanted`: runs/NAME-N for the first N from 1 that nobody has.
absl::StatusOr<std::string> MakeRunFolder(const std::string& wanted,
                                          const std::string& name);

// Where the coordinator of a run listens, "host:port"; empty as long as its
// folder does not say so (file `addresses`).
std::string CoordinatorAddressOf(const std::string& run_dir);

// The last `lines` lines of a text file, each after `indent`; empty when it
// cannot be read or is empty. Reads at most its last 16 KiB.
std::string TailOfFile(const std::string& path, int lines,
                       const std::string& indent);

}  // namespace sluice

#endif  // SLUICE_CLI_RUN_FOLDER_H_

#ifndef SLUICE_CLI_RUN_FOLDER_H_
#define SLUICE_CLI_RUN_FOLDER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace sluice {

// Makes the folder of a run, with its parents, and returns its path. Refuses a
// folder that is not empty (kAlreadyExists) and a path that can be none
// (kInvalidArgument). kUnavailable: the system will not make it, as where a disk
// is full. If `wanted` is empty, it makes runs/NAME-N for the first free N from
// 1.
absl::StatusOr<std::string> MakeRunFolder(const std::string& wanted,
                                          const std::string& name);

// The exit status of a command that `status` keeps from its work: 1, the
// machine is at fault, as with a full disk; 2, the input is to be changed.
int ExitCodeOfRefusal(const absl::Status& status);

// Where the lead of a run, its coordinator, listens.
struct LeadAddress {
  std::string host_port = {};  // Empty until the file says so.
  std::string run_id = {};     // Empty: whichever run listens there.

  friend bool operator==(const LeadAddress& a, const LeadAddress& b) {
    return a.host_port == b.host_port && a.run_id == b.run_id;
  }
};
// From the file `addresses` of the run's folder.
LeadAddress LeadAddressOf(const std::string& run_dir);

// What `sluice train` said at the end of a run that failed, "failure.txt".
std::string FailureFileOf(const std::string& run_dir);

// kPermissionDenied names `folder`, if it is one that this user may not read:
// that of a run is its owner's, unless output.mode says otherwise.
// kInvalidArgument: it is there and no folder.
absl::Status CheckMayRead(const std::string& folder);

// A file from byte `offset` on; nullopt when it cannot be read or is no file.
std::optional<std::string> TextOfFile(const std::string& path,
                                      int64_t offset = 0);

// The last `lines` lines of a text file, each after `indent`; empty when it
// cannot be read or is empty. Reads at most its last 16 KiB.
std::string TailOfFile(const std::string& path, int lines,
                       const std::string& indent);

}  // namespace sluice

#endif  // SLUICE_CLI_RUN_FOLDER_H_

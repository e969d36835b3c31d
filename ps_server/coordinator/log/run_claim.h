#ifndef SLUICE_PS_SERVER_COORDINATOR_LOG_RUN_CLAIM_H_
#define SLUICE_PS_SERVER_COORDINATOR_LOG_RUN_CLAIM_H_

#include <string>

#include "absl/status/status.h"
#include "common/files/file_operations.h"
#include "common/ids.h"

// By what a coordinator proves that the run is still its own.
//
// Looking for the next generation's commit log proves nothing on a network file
// system: that it is not there may be answered from a cache, for as long as the
// cache keeps it. A rename is carried out by the server. The coordinator of
// generation 3 has the file "RUN/lead-3", which it renames and renames back;
// who takes a later generation takes that file away first, and from then on
// every rename of the older one fails, whatever its machine has cached.
namespace sluice {

// Ends the claims of all generations before `generation`, whose commit log the
// caller has just created, and makes its own. kPermissionDenied: meanwhile
// another process has taken a later one. kUnavailable, kResourceExhausted: name
// the file.
absl::Status MakeClaim(const std::string& run_dir, Generation generation,
                       FileOperations* files);

// OK: when this was called nobody had made a claim of a later generation.
// kPermissionDenied: somebody has. kUnavailable: it cannot be known, as where
// the folder is gone. One at a time. Blocks.
absl::Status ProveClaim(const std::string& run_dir, Generation generation,
                        FileOperations* files);

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_LOG_RUN_CLAIM_H_

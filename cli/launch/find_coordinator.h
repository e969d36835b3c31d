#ifndef SLUICE_CLI_LAUNCH_FIND_COORDINATOR_H_
#define SLUICE_CLI_LAUNCH_FIND_COORDINATOR_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "cli/launch/coordinator_watch.h"
#include "common/tls/tls_flags.h"

namespace sluice {

// The coordinator of the run `run`, its folder or the coordinator's host:port,
// as its operator talks to it. Starts threads. Errors: kUnavailable (the folder
// names no coordinator yet), kInvalidArgument (`run` is neither, or the flags
// will not do).
absl::StatusOr<std::unique_ptr<CoordinatorWatch>> FindCoordinator(
    const std::string& run, const TlsFlags& tls);

}  // namespace sluice

#endif  // SLUICE_CLI_LAUNCH_FIND_COORDINATOR_H_

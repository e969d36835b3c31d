#ifndef SLUICE_COMMON_PROCESS_EXIT_CODES_H_
#define SLUICE_COMMON_PROCESS_EXIT_CODES_H_

#include "absl/status/status.h"
#include "absl/strings/cord.h"

// Exit codes of the daemons, for the supervisor that started them. 0: the run
// reached its end, or the process was told to stop.
namespace sluice {

// The run or this process failed; the log says why.
inline constexpr int kExitFailed = 1;
// The command line or the job is invalid.
inline constexpr int kExitUsage = 2;
// Another lead has taken over the run. Do not start this one again.
inline constexpr int kExitSuperseded = 3;
// Start it again (EX_TEMPFAIL of sysexits.h): what it waited for in vain may
// come yet (the coordinator, another process, the run's folder, the file of the
// job or the data), or it was told to --yield.
inline constexpr int kExitRestart = 75;

// Whether `status` is to end the process with kExitRestart.
inline constexpr char kAsksForRestart[] = "sluice/restart";
inline bool AsksForRestart(const absl::Status& status) {
  return status.GetPayload(kAsksForRestart).has_value();
}
// `status`, not OK, as one that does.
inline absl::Status AskForRestart(absl::Status status) {
  status.SetPayload(kAsksForRestart, absl::Cord());
  return status;
}

}  // namespace sluice

#endif  // SLUICE_COMMON_PROCESS_EXIT_CODES_H_

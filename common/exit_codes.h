#ifndef SLUICE_COMMON_EXIT_CODES_H_
#define SLUICE_COMMON_EXIT_CODES_H_

// Exit codes of the daemons, for the supervisor that started them. 0: the run
// reached its end, or the process was told to stop.
namespace sluice {

// The run or this process failed; the log says why.
inline constexpr int kExitFailed = 1;
// The command line or the job is invalid.
inline constexpr int kExitUsage = 2;
// Another lead has taken over the run. Do not start this one again.
inline constexpr int kExitSuperseded = 3;
// The coordinator has not answered for limits.start_timeout_s, or was silent for
// limits.rejoin_timeout_s, and may come; or this process was told to --yield.
// Start it again (EX_TEMPFAIL of sysexits.h).
inline constexpr int kExitCoordinatorLost = 75;

}  // namespace sluice

#endif  // SLUICE_COMMON_EXIT_CODES_H_

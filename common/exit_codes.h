#ifndef SLUICE_COMMON_EXIT_CODES_H_
#define SLUICE_COMMON_EXIT_CODES_H_

// How the daemons say to whoever started them why they ended; 0: the run
// reached its end, or the process was told to stop.
namespace sluice {

// The run failed, or this process; it has said why.
inline constexpr int kExitFailed = 1;
// Bad usage or a bad job.
inline constexpr int kExitUsage = 2;
// Another lead goes on with the run: not to be started again.
inline constexpr int kExitSuperseded = 3;
// The coordinator fell silent for limits.rejoin_timeout_s: to be started again,
// since it may come back (sysexits.h's EX_TEMPFAIL).
inline constexpr int kExitCoordinatorLost = 75;

}  // namespace sluice

#endif  // SLUICE_COMMON_EXIT_CODES_H_

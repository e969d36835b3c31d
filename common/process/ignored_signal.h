#ifndef SLUICE_COMMON_PROCESS_IGNORED_SIGNAL_H_
#define SLUICE_COMMON_PROCESS_IGNORED_SIGNAL_H_

#include <signal.h>

namespace sluice {

// Whether this process ignores `number`. It may have inherited that from its
// parent (nohup makes it ignore SIGHUP) or chosen it. A blocked signal reaches
// sigwait even if it is ignored, so code that waits for signals must leave out
// those that are to stay ignored.
inline bool IsIgnored(int number) {
  struct sigaction now = {};
  return sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace sluice

#endif  // SLUICE_COMMON_PROCESS_IGNORED_SIGNAL_H_

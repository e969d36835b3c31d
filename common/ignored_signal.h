#ifndef SLUICE_COMMON_IGNORED_SIGNAL_H_
#define SLUICE_COMMON_IGNORED_SIGNAL_H_

#include <signal.h>

namespace sluice {

// Whether this process ignores `number`: inherited from who started it (nohup
// does so to SIGHUP), unless it chose so itself. A signal that is blocked
// reaches sigwait even if it is ignored, so whoever waits for signals leaves
// out those that are to stay ignored.
inline bool IsIgnored(int number) {
  struct sigaction now = {};
  return sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

}  // namespace sluice

#endif  // SLUICE_COMMON_IGNORED_SIGNAL_H_

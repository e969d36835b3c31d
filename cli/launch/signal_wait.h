#ifndef SLUICE_CLI_LAUNCH_SIGNAL_WAIT_H_
#define SLUICE_CLI_LAUNCH_SIGNAL_WAIT_H_

#include <signal.h>

#include <optional>

#include "absl/time/time.h"

namespace sluice {

// Takes SIGINT, SIGTERM, SIGHUP and SIGCHLD as values instead of interrupts,
// for as long as it lives. Threads started meanwhile leave them alone too. A
// SIGHUP that is ignored (nohup) stays so.
//
// Not thread-safe: make it before the first other thread starts, and call it
// from the thread that made it.
class SignalWait {
 public:
  SignalWait();
  // Restores what was. A signal that nobody took yet then has its effect.
  ~SignalWait();
  SignalWait(const SignalWait&) = delete;
  SignalWait& operator=(const SignalWait&) = delete;

  // The next signal, or nothing when none comes within `patience`.
  std::optional<int> WaitFor(absl::Duration patience);

 private:
  sigset_t taken_;
  sigset_t before_;
};

}  // namespace sluice

#endif  // SLUICE_CLI_LAUNCH_SIGNAL_WAIT_H_

#ifndef SLUICE_CLI_LAUNCH_SIGNAL_WAIT_H_
#define SLUICE_CLI_LAUNCH_SIGNAL_WAIT_H_

#include <signal.h>

#include <optional>

#include "absl/time/time.h"

namespace sluice {

// Blocks SIGINT, SIGTERM, SIGHUP and SIGCHLD for as long as it lives, and
// returns them as values instead. Threads that start meanwhile inherit the
// mask. A SIGHUP that is ignored (nohup) stays ignored, and so does a SIGINT
// (what a script starts with `&`).
//
// Not thread-safe: make it before the first other thread starts, and call it
// from the thread that made it.
class SignalWait {
 public:
  SignalWait();
  // Restores the old mask. A signal that is still pending then has its effect.
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

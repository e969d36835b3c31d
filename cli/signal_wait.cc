#include "cli/signal_wait.h"

#include <initializer_list>

namespace sluice {

SignalWait::SignalWait() {
  sigemptyset(&taken_);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) {
    sigaddset(&taken_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &taken_, &before_);
}

SignalWait::~SignalWait() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

std::optional<int> SignalWait::WaitFor(absl::Duration patience) {
  const timespec limit = absl::ToTimespec(patience);
  const int signal = sigtimedwait(&taken_, nullptr, &limit);
  if (signal < 0) return std::nullopt;
  return signal;
}

}  // namespace sluice

#include "cli/launch/signal_wait.h"

#include <initializer_list>

#include "common/process/ignored_signal.h"

namespace sluice {

SignalWait::SignalWait() {
  sigemptyset(&taken_);
  for (int signal : {SIGTERM, SIGCHLD}) sigaddset(&taken_, signal);
  for (int signal : {SIGINT, SIGHUP}) {
    if (!IsIgnored(signal)) sigaddset(&taken_, signal);
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

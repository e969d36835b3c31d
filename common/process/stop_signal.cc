// The thread takes two signals with sigwait: the first one calls on_signal, the
// second one ends the process, for a shutdown that hangs. The destructor sends
// the thread a signal of its own, which `ended_` tells from a real one.
#include "common/process/stop_signal.h"

#include <pthread.h>

#include <csignal>
#include <cstdlib>
#include <utility>

#include "common/process/ignored_signal.h"
#include "common/process/named_thread.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

sigset_t Signals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  if (!IsIgnored(SIGINT)) sigaddset(&signals, SIGINT);
  return signals;
}

}  // namespace

void StopSignal::Block() {
  const sigset_t signals = Signals();
  SLUICE_CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0);
}

StopSignal::StopSignal(std::function<void(const std::string&)> on_signal)
    : on_signal_(std::move(on_signal)),
      thread_(StartThread("signals", [this] { Wait(); })) {}

StopSignal::~StopSignal() {
  ended_ = true;
  // Wakes the thread if it still waits. Otherwise the signal stays pending for
  // a thread that is ending.
  pthread_kill(thread_.native_handle(), SIGTERM);
  thread_.join();
}

void StopSignal::Wait() {
  const sigset_t signals = Signals();
  int number = 0;
  SLUICE_CHECK(sigwait(&signals, &number) == 0);
  if (ended_) return;
  on_signal_(number == SIGINT ? "SIGINT" : "SIGTERM");
  SLUICE_CHECK(sigwait(&signals, &number) == 0);
  if (!ended_) std::_Exit(1);
}

}  // namespace sluice

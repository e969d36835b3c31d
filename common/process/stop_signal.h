#ifndef SLUICE_COMMON_PROCESS_STOP_SIGNAL_H_
#define SLUICE_COMMON_PROCESS_STOP_SIGNAL_H_

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace sluice {

// Handles SIGINT and SIGTERM on its own thread, where, unlike in a signal
// handler, any function may be called. A SIGINT that the process was started to
// ignore stays ignored: shells have it so for what a script starts with `&`, so
// that the user's Ctrl-C ends only what runs in the foreground.
//
// At most one exists at a time in a process.
//
// Thread-compatible.
class StopSignal {
 public:
  // Keeps the signals from ending the process. Call in `main` before other
  // threads exist, because threads inherit the signal mask.
  static void Block();

  // Calls `on_signal` once, with the name of the first signal ("SIGTERM"), on
  // that thread. It must return soon, because a second signal is handled only
  // after that; the second signal ends the process at once with exit code 1.
  // REQUIRES: Block was called.
  explicit StopSignal(std::function<void(const std::string&)> on_signal);
  // Waits for a running `on_signal`; it is not called afterwards. Must not be
  // called from `on_signal`.
  ~StopSignal();

 private:
  void Wait();

  // Constant after construction.
  const std::function<void(const std::string&)> on_signal_;

  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_PROCESS_STOP_SIGNAL_H_

#ifndef SLUICE_COMMON_STOP_SIGNAL_H_
#define SLUICE_COMMON_STOP_SIGNAL_H_

#include <atomic>
#include <functional>
#include <string>
#include <thread>

namespace sluice {

// Hears SIGINT and SIGTERM in a thread of its own, where, unlike in a signal
// handler, everything may be called.
//
// At most one at a time in a process.
//
// Thread-compatible.
class StopSignal {
 public:
  // Keeps the signals from ending the process. Call in `main` before any
  // other thread exists: threads inherit it.
  static void Block();

  // Calls `on_signal` with the first signal's name ("SIGTERM"), once, in that
  // thread. It must return soon: only then is a second signal heard, which ends
  // the process at once, with exit code 1.
  // REQUIRES: Block was called.
  explicit StopSignal(std::function<void(const std::string&)> on_signal);
  // Waits for an `on_signal` that runs; it is not called any more. Not from
  // `on_signal`.
  ~StopSignal();

 private:
  void Wait();

  // Constant after construction.
  const std::function<void(const std::string&)> on_signal_;

  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_STOP_SIGNAL_H_

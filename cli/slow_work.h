#ifndef SLUICE_CLI_SLOW_WORK_H_
#define SLUICE_CLI_SLOW_WORK_H_

#include <cstdint>
#include <functional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace sluice {

// Says that a command goes on, once it has taken longer than 3 s and then every
// 5 s, from its construction to its end:
//
//   simulate: 8 s, update 1200
//   ledger: 8 s, 340 MB read
//   stop: 8 s, version 166, waiting for shard 1
//
// Goes to stderr, so that stdout holds the result alone. Thread-safe.
class SlowWork {
 public:
  struct Options {
    absl::Duration first = absl::Seconds(3);
    absl::Duration every = absl::Seconds(5);
    // Gets each line, on a thread of its own; null: stderr does.
    std::function<void(const std::string& line)> say = nullptr;
  };

  // `command` begins each line. `counted` is what At counts, "update".
  SlowWork(std::string command, std::string counted)
      : SlowWork(std::move(command), std::move(counted), Options()) {}
  explicit SlowWork(std::string command)
      : SlowWork(std::move(command), "", Options()) {}
  SlowWork(std::string command, std::string counted, Options options);
  ~SlowWork();

  // How far the command is, and whom it waits for, if that is known. Until the
  // first call the lines say instead how much this process has read.
  void At(int64_t done, const std::string& waits_for = "");

 private:
  void Loop();
  std::string Line(absl::Duration passed) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Constant after construction.
  const std::string command_;
  const std::string counted_;
  const Options options_;

  absl::Mutex mu_;  // Leaf lock: nothing else is acquired under it.
  bool over_ ABSL_GUARDED_BY(mu_) = false;
  int64_t done_ ABSL_GUARDED_BY(mu_) = -1;
  std::string waits_for_ ABSL_GUARDED_BY(mu_);

  std::thread thread_;  // Last, because the thread uses all of the above.
};

}  // namespace sluice

#endif  // SLUICE_CLI_SLOW_WORK_H_

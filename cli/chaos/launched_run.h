#ifndef SLUICE_CLI_CHAOS_LAUNCHED_RUN_H_
#define SLUICE_CLI_CHAOS_LAUNCHED_RUN_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/launch/child_process.h"

namespace sluice {

// A launcher (`sluice train`) in a process of its own, seen from outside, as
// whoever started it by hand sees it: what it says, and the processes that it
// has started. It knows nothing of being watched.
//
// Not thread-safe: call from the thread that started it, which must live as
// long as the run is to.
class LaunchedRun {
 public:
  // Starts `command`, whose output goes to the file `log` too. Errors as
  // ChildProcess::Start's.
  static absl::StatusOr<std::unique_ptr<LaunchedRun>> Start(
      const std::vector<std::string>& command, const std::string& log);

  // How the launcher ended; empty while it runs.
  std::optional<ChildExit> Poll() { return launcher_->Poll(); }

  // The lines that it has said since the last call.
  std::string TakeOutput();

  // Shards, workers and evaluator that there are now, stopped or not, by name:
  // "worker-2". One that is being started is there too.
  std::map<std::string, pid_t> Parts();

  // Kills it, and by that all that it has started, also who is stopped.
  void Kill();

 private:
  LaunchedRun(std::unique_ptr<ChildProcess> launcher, std::string log);

  // Constant after construction.
  const std::unique_ptr<ChildProcess> launcher_;
  const std::string log_;

  size_t taken_ = 0;                    // Bytes of the log.
  std::map<std::string, pid_t> parts_;  // At the last look.
};

}  // namespace sluice

#endif  // SLUICE_CLI_CHAOS_LAUNCHED_RUN_H_

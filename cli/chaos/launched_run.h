#ifndef SLUICE_CLI_CHAOS_LAUNCHED_RUN_H_
#define SLUICE_CLI_CHAOS_LAUNCHED_RUN_H_

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "cli/launch/child_process.h"

namespace sluice {

// A launcher (`sluice train`) in a process of its own, watched from outside:
// what it prints, and the processes that it has started. The launcher does not
// know that it is watched.
//
// Not thread-safe: call from the thread that started it, which must live as
// long as the run is to.
class LaunchedRun {
 public:
  // Starts `command`, with its output in the file `log`. Errors as
  // ChildProcess::Start's.
  static absl::StatusOr<std::unique_ptr<LaunchedRun>> Start(
      const std::vector<std::string>& command, const std::string& log);

  // How the launcher ended; empty while it runs.
  std::optional<ChildExit> Poll() { return launcher_->Poll(); }

  // The lines that the launcher has printed since the last call.
  std::string TakeOutput();

  // The processes of shards, workers and evaluator that live now, by name:
  // "worker-2". Includes processes that are stopped.
  std::map<std::string, pid_t> Parts();

  // Kills the launcher. The kernel then kills all that it has started, also
  // processes that are stopped.
  void Kill();

 private:
  LaunchedRun(std::unique_ptr<ChildProcess> launcher, std::string log);

  // Constant after construction.
  const std::unique_ptr<ChildProcess> launcher_;
  const std::string log_;

  int64_t taken_ = 0;                   // Bytes of the log.
  std::map<std::string, pid_t> parts_;  // At the last look.
};

}  // namespace sluice

#endif  // SLUICE_CLI_CHAOS_LAUNCHED_RUN_H_

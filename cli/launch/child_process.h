#ifndef SLUICE_CLI_LAUNCH_CHILD_PROCESS_H_
#define SLUICE_CLI_LAUNCH_CHILD_PROCESS_H_

#include <sys/types.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace sluice {

// How a process ended.
struct ChildExit {
  // Of a child whom somebody else has reaped.
  static constexpr int kUnknown = -1;

  int status = 0;  // What it returned; meaningless when a signal ended it.
  int signal = 0;  // 0: it ended by itself.

  bool ok() const { return status == 0 && signal == 0; }
  // "exit status 1", "killed by signal 9 (Killed)", "exit status unknown".
  std::string ToString() const;
};

// A child process. The destructor kills and reaps it, so nothing of it is left
// behind. It has its own process group, so that Ctrl-C reaches only the parent.
// The kernel kills it if the thread that started it dies. It ignores neither
// SIGHUP nor what SetUpProcess has this process ignore.
//
// Not thread-safe: call from the thread that started it, which must live as
// long as the child is to.
class ChildProcess {
 public:
  // Starts `argv` (argv[0] is the path of the program) with no input and its
  // output appended to the file `log_path`. kUnavailable names the program or
  // the log, and the system's reason.
  static absl::StatusOr<std::unique_ptr<ChildProcess>> Start(
      const std::vector<std::string>& argv, const std::string& log_path);

  // Kills the process if it still runs, and reaps it.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  // How it ended; empty while it runs. Does not block.
  std::optional<ChildExit> Poll();

  // Does nothing if the process has ended.
  void Signal(int signal);

  pid_t pid() const { return pid_; }
  const std::string& log_path() const { return log_path_; }

 private:
  ChildProcess(pid_t pid, std::string log_path);

  // Constant after construction.
  const pid_t pid_;
  const std::string log_path_;

  std::optional<ChildExit> exit_;
};

}  // namespace sluice

#endif  // SLUICE_CLI_LAUNCH_CHILD_PROCESS_H_

#ifndef SLUICE_WORKER_EXTERNAL_SUBPROCESS_H_
#define SLUICE_WORKER_EXTERNAL_SUBPROCESS_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace sluice {

// A child process that holds one end of a socket. It has a process group of its
// own, so that Ctrl-C reaches its parent alone, no input, and its parent's
// output. The kernel kills it when the thread that started it ends; the
// destructor kills its whole group and reaps it.
//
// Not thread-safe: call from one thread at a time.
class Subprocess {
 public:
  // Starts `command`; its first word is looked for in PATH unless it holds a
  // slash. In the child `socket` is the one descriptor open besides 0, 1 and 2,
  // and the environment variable `variable` names its number. The caller keeps
  // `socket`. `defaults` are environment variables, for those that this process
  // has not. It does not ignore what SetUpProcess has this process ignore.
  // kInvalidArgument names a program that cannot be run and why.
  // kUnavailable: there can be no more processes. REQUIRES: `command` is not
  // empty; the calling thread lives as long as the child is to.
  static absl::StatusOr<std::unique_ptr<Subprocess>> Start(
      const std::vector<std::string>& command, int socket,
      const std::string& variable,
      const std::map<std::string, std::string>& defaults = {});
  ~Subprocess();
  Subprocess(const Subprocess&) = delete;
  Subprocess& operator=(const Subprocess&) = delete;

  pid_t pid() const { return pid_; }
  // Readable from when the process has ended (pidfd_open).
  int ended_descriptor() const { return descriptor_; }
  // "(pid 123, python3 train.py)"
  const std::string& name() const { return name_; }

  // Waits at most `time`; whether it has ended.
  bool AwaitEnd(absl::Duration time);
  // Returns when it is gone: kills it after `limit`, of which the log tells. It
  // was told to end.
  void EndWithin(absl::Duration limit);
  // Kills the process and those that it started in its group, if they are still
  // there. Returns when the process is gone.
  void Kill();
  // "was killed by signal 9", "ended with exit status 1".
  // REQUIRES: it has ended.
  const std::string& how_it_ended() const { return how_it_ended_; }

 private:
  Subprocess(pid_t pid, int descriptor, std::string name)
      : pid_(pid), descriptor_(descriptor), name_(std::move(name)) {}
  void Reap();

  // Constant after construction.
  const pid_t pid_;
  const int descriptor_;
  const std::string name_;

  std::string how_it_ended_;  // Empty until it was reaped.
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXTERNAL_SUBPROCESS_H_

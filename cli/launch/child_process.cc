#include "cli/launch/child_process.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/process/process_setup.h"

namespace sluice {
namespace {

absl::Status SystemError(const std::string& what, int error) {
  return absl::UnavailableError(absl::StrCat(what, ": ", strerror(error)));
}

// Runs in the child between fork and exec, where another thread of the parent
// may have held any lock: async-signal-safe calls only. On failure writes
// errno to `report`.
[[noreturn]] void Become(char* const argv[], int log, int report,
                         pid_t parent) {
  RestoreSignals();
  sigset_t none;
  sigemptyset(&none);
  // The child has its own process group, so the end of a terminal does not
  // reach it. A SIGHUP that does was sent on purpose.
  struct sigaction by_default = {};
  by_default.sa_handler = SIG_DFL;
  const int input = open("/dev/null", O_RDONLY);
  const bool ready =
      setpgid(0, 0) == 0 && prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
      sigaction(SIGHUP, &by_default, nullptr) == 0 &&
      sigprocmask(SIG_SETMASK, &none, nullptr) == 0 &&
      dup2(input, STDIN_FILENO) >= 0 && dup2(log, STDOUT_FILENO) >= 0 &&
      dup2(log, STDERR_FILENO) >= 0;
  // The parent may have died before the kernel was asked to watch it.
  if (ready && getppid() == parent) execv(argv[0], argv);
  const int error = errno;
  // The parent takes an empty report for success. If this write fails, the
  // parent sees a child that ended with status 127.
  (void)!write(report, &error, sizeof error);
  _exit(127);
}

}  // namespace

std::string ChildExit::ToString() const {
  if (signal == 0 && status == kUnknown) return "exit status unknown";
  if (signal == 0) return absl::StrCat("exit status ", status);
  return absl::StrCat("killed by signal ", signal, " (", strsignal(signal),
                      ")");
}

ChildProcess::ChildProcess(pid_t pid, std::string log_path)
    : pid_(pid), log_path_(std::move(log_path)) {}

absl::StatusOr<std::unique_ptr<ChildProcess>> ChildProcess::Start(
    const std::vector<std::string>& argv, const std::string& log_path) {
  const int log =
      open(log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  if (log < 0) return SystemError(absl::StrCat("opening ", log_path), errno);
  int report[2];
  if (pipe2(report, O_CLOEXEC) != 0) {
    const int error = errno;
    close(log);
    return SystemError("making a pipe", error);
  }
  std::vector<char*> words;
  for (const std::string& word : argv) {
    words.push_back(const_cast<char*>(word.c_str()));
  }
  words.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  const int fork_error = errno;
  if (pid == 0) Become(words.data(), log, report[1], parent);
  close(log);
  close(report[1]);
  int error = 0;
  // The pipe closes, empty, at the moment the program takes over.
  const bool failed =
      pid > 0 && read(report[0], &error, sizeof error) == sizeof error;
  close(report[0]);
  if (pid < 0) return SystemError("starting a process", fork_error);
  if (failed) {
    waitpid(pid, nullptr, 0);
    return SystemError(absl::StrCat("starting ", argv[0]), error);
  }
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, log_path));
}

ChildProcess::~ChildProcess() {
  if (exit_.has_value()) return;
  kill(pid_, SIGKILL);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<ChildExit> ChildProcess::Poll() {
  if (exit_.has_value()) return exit_;
  int status = 0;
  const pid_t ended = waitpid(pid_, &status, WNOHANG);
  if (ended < 0 && errno == ECHILD) {
    exit_ = {.status = ChildExit::kUnknown};
  } else if (ended == pid_ && WIFSIGNALED(status)) {
    exit_ = {.signal = WTERMSIG(status)};
  } else if (ended == pid_) {
    exit_ = {.status = WEXITSTATUS(status)};
  }
  return exit_;
}

void ChildProcess::Signal(int signal) {
  if (!Poll().has_value()) kill(pid_, signal);
}

}  // namespace sluice

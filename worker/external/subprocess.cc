// Between fork and exec the child runs Become, which makes async-signal-safe
// calls only: another thread of the parent may have held any lock at the fork.
// All that it needs is laid out before. Where exec fails it writes errno into a
// pipe that exec closes, so the parent's read ends at once either way:
//
//   parent   fork, read(report)          errno: kInvalidArgument
//   child    Become: exec                empty: the program has taken over
#include "worker/external/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/process/process_setup.h"
#include "common/status_macros.h"
#include "third_party/spdlog.h"

namespace sluice {
namespace {

constexpr int kSocket = 3;  // In the child.
constexpr int kReport = 4;

// REQUIRES: neither `socket` nor `report` is below 5.
[[noreturn]] void Become(char* const argv[], char* const environment[],
                         int socket, int report, pid_t parent) {
  RestoreSignals();
  sigset_t none;
  sigemptyset(&none);
  const int input = open("/dev/null", O_RDONLY);
  const bool ready = setpgid(0, 0) == 0 &&
                     prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 &&
                     dup2(input, STDIN_FILENO) == STDIN_FILENO &&
                     dup2(socket, kSocket) == kSocket &&
                     dup3(report, kReport, O_CLOEXEC) == kReport &&
                     syscall(SYS_close_range, kReport + 1, ~0U, 0) == 0 &&
                     sigprocmask(SIG_SETMASK, &none, nullptr) == 0;
  // The parent may have died before the kernel was asked to watch it.
  if (ready && getppid() == parent) execvpe(argv[0], argv, environment);
  const int error = errno;
  // An empty report reads as success; then status 127 tells.
  (void)!write(ready ? kReport : report, &error, sizeof error);
  _exit(127);
}

std::vector<char*> Pointers(std::vector<std::string>* words) {
  std::vector<char*> pointers;
  for (std::string& word : *words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// This process's, with `variable` set to kSocket, and with the `defaults` that
// it does not set.
std::vector<std::string> Environment(
    const std::string& variable,
    const std::map<std::string, std::string>& defaults) {
  std::map<std::string, std::string> values = defaults;
  for (char** word = environ; *word != nullptr; ++word) {
    const std::pair<std::string, std::string> set =
        absl::StrSplit(*word, absl::MaxSplits('=', 1));
    values[set.first] = set.second;
  }
  values[variable] = absl::StrCat(kSocket);
  std::vector<std::string> words;
  for (const auto& [name, value] : values) {
    words.push_back(absl::StrCat(name, "=", value));
  }
  return words;
}

// A copy of `descriptor` that Become can move without closing another.
int Above(int descriptor) {
  return fcntl(descriptor, F_DUPFD_CLOEXEC, kReport + 1);
}

// The errno of an exec that failed, or 0. Blocks until one or the other.
int ReadReport(int pipe) {
  int error = 0;
  ssize_t got;
  do {
    got = read(pipe, &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  return got == sizeof error ? error : 0;
}

std::string NameOf(pid_t pid, const std::vector<std::string>& command) {
  constexpr size_t kLongest = 200;  // Of a line that a person reads.
  std::string words = absl::StrJoin(command, " ");
  if (words.size() > kLongest) words.replace(kLongest, words.npos, "...");
  return absl::StrCat("(pid ", pid, ", ", words, ")");
}

}  // namespace

absl::StatusOr<std::unique_ptr<Subprocess>> Subprocess::Start(
    const std::vector<std::string>& command, int socket,
    const std::string& variable,
    const std::map<std::string, std::string>& defaults) {
  SLUICE_CHECK(!command.empty());
  std::vector<std::string> words = command;
  std::vector<std::string> environment = Environment(variable, defaults);
  const std::vector<char*> argv = Pointers(&words);
  const std::vector<char*> variables = Pointers(&environment);
  int pipe[2] = {-1, -1};
  const int moved = Above(socket);
  if (moved < 0 || pipe2(pipe, O_CLOEXEC) != 0) {
    const int error = errno;
    if (moved >= 0) close(moved);
    return absl::UnavailableError(
        absl::StrCat("descriptors for a process: ", strerror(error)));
  }
  const int report = Above(pipe[1]);
  const pid_t parent = getpid();
  const pid_t pid = report < 0 ? -1 : fork();
  int error = errno;
  if (pid == 0) Become(argv.data(), variables.data(), moved, report, parent);
  for (const int descriptor : {moved, pipe[1], report}) close(descriptor);
  const int failed = pid < 0 ? 0 : ReadReport(pipe[0]);
  close(pipe[0]);
  if (failed != 0) {
    waitpid(pid, nullptr, 0);
    return absl::InvalidArgumentError(
        absl::StrCat("cannot run ", command[0], ": ", strerror(failed)));
  }
  const int ended =
      pid < 0 ? -1 : static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  if (ended >= 0) {
    return std::unique_ptr<Subprocess>(
        new Subprocess(pid, ended, NameOf(pid, command)));
  }
  if (pid >= 0) {
    error = errno;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
  }
  return absl::UnavailableError(
      absl::StrCat("starting ", command[0], ": ", strerror(error)));
}

Subprocess::~Subprocess() {
  Kill();
  close(descriptor_);
}

bool Subprocess::AwaitEnd(absl::Duration time) {
  if (!how_it_ended_.empty()) return true;
  const timespec timeout =
      absl::ToTimespec(std::max(time, absl::ZeroDuration()));
  pollfd ended = {.fd = descriptor_, .events = POLLIN, .revents = 0};
  // A signal that interrupts it shortens the wait.
  if (ppoll(&ended, 1, &timeout, nullptr) <= 0) return false;
  Reap();
  return true;
}

void Subprocess::EndWithin(absl::Duration limit) {
  // Its program may have more to do, which a kill would end without a word. The
  // first line is for a kill with this process, which nobody can tell of.
  const absl::Duration soon = std::min(limit * 2 / 5, absl::Seconds(2));
  if (AwaitEnd(soon)) return;
  spdlog::warn(
      "event=model_process_runs_on reason=\"the model process {} was told to "
      "end, and is killed {} after that, or with this process\"",
      name_, absl::FormatDuration(limit));
  if (AwaitEnd(limit - soon)) return;
  spdlog::warn(
      "event=model_process_killed reason=\"the model process {} was told to "
      "end, and still ran {} later\"",
      name_, absl::FormatDuration(limit));
  Kill();
}

void Subprocess::Kill() {
  if (how_it_ended_.empty()) Reap();
}

void Subprocess::Reap() {
  // With it those that it leaves behind. Until it is reaped its number, and so
  // its group's, is nobody else's.
  kill(-pid_, SIGKILL);
  // Longer than the kernel needs to give back the memory of a large process.
  constexpr timespec kPatience = {.tv_sec = 30, .tv_nsec = 0};
  pollfd ended = {.fd = descriptor_, .events = POLLIN, .revents = 0};
  ppoll(&ended, 1, &kPatience, nullptr);
  int status = 0;
  if (waitpid(pid_, &status, WNOHANG) != pid_) {
    how_it_ended_ = "is killed, but hangs in the kernel";
    return;
  }
  how_it_ended_ =
      WIFSIGNALED(status)
          ? absl::StrCat("was killed by signal ", WTERMSIG(status))
          : absl::StrCat("ended with exit status ", WEXITSTATUS(status));
}

}  // namespace sluice

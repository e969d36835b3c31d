// SIGHUP is blocked in all threads and taken by one thread with sigwait,
// because opening a file and logging are not allowed in a signal handler.
//
// A log is rotated like this: logrotate renames d.log to d.log.1 and sends
// SIGHUP; until then lines go on to d.log.1. The thread opens a new d.log and
// moves stdout and stderr to it with dup2, which is atomic for other writers.
// So no line is lost and none is split between the files.
#include "common/telemetry/daemon_log.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "common/process/ignored_signal.h"
#include "common/process/named_thread.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"
#include "spdlog/pattern_formatter.h"
#include "spdlog/sinks/stdout_sinks.h"
#include "third_party/spdlog.h"

namespace sluice {
namespace {

// Logs can contain paths and addresses, which are private by default.
constexpr mode_t kNewFileMode = S_IRUSR | S_IWUSR;
constexpr mode_t kPermissions = S_IRWXU | S_IRWXG | S_IRWXO;

sigset_t HangUp() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGHUP);
  return signals;
}

// The mode of the file that stderr is, for the file that replaces it.
mode_t ModeOfOpenFile() {
  struct stat now = {};
  const bool is_file = fstat(STDERR_FILENO, &now) == 0 && S_ISREG(now.st_mode);
  return is_file ? now.st_mode & kPermissions : kNewFileMode;
}

// Redirects stdout and stderr to `file`. Each change is atomic for all threads
// that write, so no line is lost or cut. False: where stderr goes has not
// changed, and a log line there says why.
bool SendOutputTo(const std::string& file) {
  const int opened =
      open(file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC,
           ModeOfOpenFile());
  const bool sent = opened >= 0 && dup2(opened, STDOUT_FILENO) >= 0 &&
                    dup2(opened, STDERR_FILENO) >= 0;
  const int error = errno;
  if (opened >= 0) close(opened);
  if (!sent) {
    spdlog::error("event=log_not_opened file={} error={}", LogValue(file),
                  LogValue(strerror(error)));
  }
  return sent;
}

// An event is one line, whatever others have said that stands in it.
class OneLine final : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&,
              spdlog::memory_buf_t& to) override {
    for (const char c : message.payload) {
      if (c == '\n') {
        to.append(absl::string_view("\\n"));
      } else if (absl::ascii_iscntrl(c)) {
        to.append(absl::StrFormat("\\x%02x", static_cast<unsigned char>(c)));
      } else {
        to.push_back(c);
      }
    }
  }
  std::unique_ptr<spdlog::custom_flag_formatter> clone() const override {
    return std::make_unique<OneLine>();
  }
};

}  // namespace

DaemonLog::DaemonLog(const std::string& process, const std::string& file,
                     bool debug)
    : file_(file) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt(process));
  auto lines = std::make_unique<spdlog::pattern_formatter>(
      spdlog::pattern_time_type::utc);
  lines->add_flag<OneLine>('*').set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %l %n %*");
  spdlog::set_formatter(std::move(lines));
  spdlog::set_level(debug ? spdlog::level::debug : spdlog::level::info);
  if (file_.empty()) return;
  SendOutputTo(file_);
  if (IsIgnored(SIGHUP)) return;
  const sigset_t signals = HangUp();
  SLUICE_CHECK(pthread_sigmask(SIG_BLOCK, &signals, nullptr) == 0);
  thread_ = StartThread("log", [this] { ReopenOnSignal(); });
}

DaemonLog::~DaemonLog() {
  ended_ = true;
  if (!thread_.joinable()) return;
  pthread_kill(thread_.native_handle(), SIGHUP);
  thread_.join();
}

void DaemonLog::ReopenOnSignal() {
  const sigset_t signals = HangUp();
  for (;;) {
    int number = 0;
    SLUICE_CHECK(sigwait(&signals, &number) == 0);
    if (ended_) return;
    if (SendOutputTo(file_)) {
      spdlog::info("event=log_reopened file={}", LogValue(file_));
    }
  }
}

}  // namespace sluice

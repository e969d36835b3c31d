#ifndef SLUICE_COMMON_TELEMETRY_DAEMON_LOG_H_
#define SLUICE_COMMON_TELEMETRY_DAEMON_LOG_H_

#include <atomic>
#include <string>
#include <thread>

namespace sluice {

// This process's log, as spdlog's default logger: spdlog::info("event=...")
// writes one event per line to stderr, in UTC:
//   2024-05-01T12:00:00.123Z info ps_server-1 event=joined ...
//
// If a file is named, stdout and stderr become that file, so that it also gets
// what a library prints when it aborts. SIGHUP makes the process open the file
// again, for tools that have moved it away (logrotate). The new file gets the
// mode of the old one. If SIGHUP was ignored at the start it stays ignored.
// Without a file SIGHUP is left alone.
//
// At most one exists at a time in a process. Thread-compatible.
class DaemonLog {
 public:
  // `process` names this process among its peers. `file`, if not empty, is
  // created with mode 0600 if it is missing, and appended to. If it cannot be
  // opened, the first line says why and the log stays on stderr. Debug lines
  // are written only if `debug`.
  // REQUIRES: no other thread exists yet, because threads inherit the signal
  // mask.
  DaemonLog(const std::string& process, const std::string& file, bool debug);
  // The file stays open.
  ~DaemonLog();
  DaemonLog(const DaemonLog&) = delete;
  DaemonLog& operator=(const DaemonLog&) = delete;

 private:
  void ReopenOnSignal();

  // Constant after construction.
  const std::string file_;

  std::atomic<bool> ended_{false};
  std::thread thread_;  // Runs only if SIGHUP is handled.
};

}  // namespace sluice

#endif  // SLUICE_COMMON_TELEMETRY_DAEMON_LOG_H_

#ifndef SLUICE_COMMON_DAEMON_LOG_H_
#define SLUICE_COMMON_DAEMON_LOG_H_

#include <atomic>
#include <string>
#include <thread>

namespace sluice {

// This process's log, which is spdlog's default logger
// (spdlog::info("event=joined ...")): one event a line on stderr, in UTC:
//   2024-05-01T12:00:00.123Z info ps_server-1 event=joined ...
//
// With a file, stdout and stderr are that file, so that it also has what a
// library says when it aborts. SIGHUP then has the file opened anew, for who
// has moved it away (logrotate); the new one has the mode of the old one.
// Where SIGHUP was ignored at the start it stays so. Without a file SIGHUP is
// left alone.
//
// One at a time in a process. Thread-compatible.
class DaemonLog {
 public:
  // `process` names this process among its peers. `file`, if not empty, is
  // appended to, and made (mode 0600) if it is not there; if it cannot be
  // opened, the first line says why, and the log stays where it was. Debug
  // lines are left out unless `debug`.
  // REQUIRES: no other thread exists yet: threads inherit what is blocked.
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
  std::thread thread_;  // Only where SIGHUP is heard.
};

}  // namespace sluice

#endif  // SLUICE_COMMON_DAEMON_LOG_H_

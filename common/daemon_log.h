#ifndef SLUICE_COMMON_DAEMON_LOG_H_
#define SLUICE_COMMON_DAEMON_LOG_H_

#include <string>

namespace sluice {

// Sends this process's log, which is spdlog's default logger
// (spdlog::info("event=joined ...")), to stderr, one event a line, in local
// time:
//   2024-05-01T12:00:00.123 info ps_server-1 event=joined ...
// `process` names it among its peers. Debug lines are left out unless
// `debug`. Call once, in `main`, before other threads exist.
void LogToStderr(const std::string& process, bool debug);

}  // namespace sluice

#endif  // SLUICE_COMMON_DAEMON_LOG_H_

#include "common/daemon_log.h"

#include "spdlog/sinks/stdout_sinks.h"
#include "spdlog/spdlog.h"

namespace sluice {

void LogToStderr(const std::string& process, bool debug) {
  spdlog::set_default_logger(spdlog::stderr_logger_mt(process));
  spdlog::set_pattern("%Y-%m-%dT%H:%M:%S.%e %l %n %v");
  spdlog::set_level(debug ? spdlog::level::debug : spdlog::level::info);
}

}  // namespace sluice

#ifndef SLUICE_CLI_REPORT_REPLAY_REPORT_H_
#define SLUICE_CLI_REPORT_REPLAY_REPORT_H_

#include <string>

#include "sim/replay.h"

namespace sluice {

// What `sluice replay` prints: for people, and as one JSON object.
std::string DescribeReplay(const ReplayReport& report);
std::string ReplayJson(const ReplayReport& report);

}  // namespace sluice

#endif  // SLUICE_CLI_REPORT_REPLAY_REPORT_H_

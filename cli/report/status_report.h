#ifndef SLUICE_CLI_REPORT_STATUS_REPORT_H_
#define SLUICE_CLI_REPORT_STATUS_REPORT_H_

#include <string>

#include "proto/coordinator.pb.h"

namespace sluice {

// How a run stands, as text: the progress line, which processes it waits for
// and since when, gradients by verdict, the staleness histogram, and a row for
// every worker and shard.
std::string FormatStatus(const proto::JobStatus& status);

// A line for every worker and shard, of what it has counted itself, as far as
// it is not 0: "worker 0   tasks_started_total=12".
std::string FormatProcessCounters(const proto::JobStatus& status);

}  // namespace sluice

#endif  // SLUICE_CLI_REPORT_STATUS_REPORT_H_

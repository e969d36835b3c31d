#ifndef SLUICE_CLI_RUN_SUMMARY_H_
#define SLUICE_CLI_RUN_SUMMARY_H_

#include <cstdint>
#include <string>

namespace sluice {

// RUN_DIR/summary.json for a person, several lines. When it cannot be read,
// says so.
std::string DescribeSummary(const std::string& run_dir);

// Why the run failed, as its coordinator wrote it there; empty when it did not
// or wrote nothing.
std::string FailureInSummary(const std::string& run_dir);

// How many of the run's tasks were cancelled; 0 when it cannot be read.
int64_t CancelledInSummary(const std::string& run_dir);

}  // namespace sluice

#endif  // SLUICE_CLI_RUN_SUMMARY_H_

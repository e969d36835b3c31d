#ifndef SLUICE_CLI_REPORT_NOTABLE_COUNTERS_H_
#define SLUICE_CLI_REPORT_NOTABLE_COUNTERS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "common/telemetry/counter_table.h"

namespace sluice {

// The coordinator's counters that people are shown only where they are not 0,
// each in words: {"mini-batches left out", 2}. These are all but the samples,
// the gradients by outcome and the checkpoints, which have places of their own
// on a page. One that this program does not know appears under its name.
std::vector<std::pair<std::string, int64_t>> NotableCounters(
    const CounterMap& counters);

}  // namespace sluice

#endif  // SLUICE_CLI_REPORT_NOTABLE_COUNTERS_H_

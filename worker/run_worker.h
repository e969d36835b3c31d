#ifndef SLUICE_WORKER_RUN_WORKER_H_
#define SLUICE_WORKER_RUN_WORKER_H_

#include <string>

#include "absl/status/status.h"
#include "common/ids.h"
#include "common/resolved_job.h"

namespace sluice {

// Works for the job's coordinator as worker `id` until the run is over, and
// adds what it does to the file `timeline` (timeline.h), unless that is empty.
// OK: it reached its end, or this process was told to stop. Else says what went
// wrong, naming the culprit. Blocks.
// REQUIRES: StopSignal::Block was called.
absl::Status RunWorker(const ResolvedJob& job, WorkerId id,
                       const std::string& timeline);

}  // namespace sluice

#endif  // SLUICE_WORKER_RUN_WORKER_H_

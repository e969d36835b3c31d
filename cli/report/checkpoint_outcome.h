#ifndef SLUICE_CLI_REPORT_CHECKPOINT_OUTCOME_H_
#define SLUICE_CLI_REPORT_CHECKPOINT_OUTCOME_H_

#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "proto/coordinator.pb.h"

namespace sluice {

// What has become of the checkpoint of `version`, which a run was asked for
// when it stood as `before`, where it stands as `now`. Nothing: it is not
// decided yet. OK: it is written. kUnavailable: it could not be written, or the
// run ended before that version. kAborted: the run goes on from an older one.
std::optional<absl::Status> CheckpointOutcome(int64_t version,
                                              const proto::JobStatus& before,
                                              const proto::JobStatus& now);

}  // namespace sluice

#endif  // SLUICE_CLI_REPORT_CHECKPOINT_OUTCOME_H_

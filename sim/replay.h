#ifndef SLUICE_SIM_REPLAY_H_
#define SLUICE_SIM_REPLAY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "ps_server/coordinator/log/commit_log_file.h"

namespace sluice {

// Where a recomputed run differs from its record.
struct ReplayDifference {
  // The first update that has a gradient whose loss differs from the one its
  // worker reported. Either the worker's weights differed then, or the log
  // names another mini-batch, base or weight than the worker used. `gradient`
  // names both losses.
  std::optional<Version> update;
  std::string gradient;
  // The first version (with a recorded digest, or the final one) that has a
  // tensor that differs, and the newest version before it that is known to
  // agree.
  std::optional<Version> version;
  Version agrees;
  std::string tensor;  // The first that differs, in the model's order.
};

struct ReplayReport {
  Version version;        // The last version of the log.
  int64_t gradients = 0;  // Number recomputed.
  // Number compared. A digest covers one tensor's part on one shard.
  int64_t digests = 0;
  std::string weights_sha256;  // As recomputed.
  // The hash in the run's summary; empty if the summary has none.
  std::string recorded_sha256;
  ReplayDifference difference;
  // The incomplete record at the end of the newest log. If there is one, the
  // run may have come further than `version`.
  std::optional<TornTail> torn;

  // Whether the run has recorded anything of its weights; one that was killed
  // early has only its gradients' losses.
  bool compared_weights() const {
    return digests > 0 || !recorded_sha256.empty();
  }
  // Whether every recorded bit was reproduced.
  bool same() const {
    return !difference.update.has_value() && !difference.version.has_value() &&
           (recorded_sha256.empty() || recorded_sha256 == weights_sha256);
  }
};

// Recomputes a run, real or simulated, in this process alone. The job and the
// commit logs (of the newest generation and its ancestors) say which
// mini-batches, computed at which version of each shard, with which weights,
// made each update. Compares every gradient's loss, the digests in the log, and
// the final weights.
//
// Memory: that of LocalTraining, which holds each version until its last use.
//
// kNotFound: no such folder, job or log. kDataLoss: the log is damaged, has a
// gap, or names something impossible; the message says where. Also errors of
// the job's files.
absl::StatusOr<ReplayReport> ReplayRun(const std::string& run_dir);

}  // namespace sluice

#endif  // SLUICE_SIM_REPLAY_H_

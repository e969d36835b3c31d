#ifndef SLUICE_SIM_REPLAY_H_
#define SLUICE_SIM_REPLAY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/ids.h"
#include "ps_server/coordinator/commit_log_file.h"

namespace sluice {

// Where a recomputed run departs from its record.
struct ReplayDifference {
  // The first update with a gradient whose loss is not the one its worker
  // reported: its weights differed then, or the log names another mini-batch,
  // another base or another weight than were used. Says both.
  std::optional<Version> update;
  std::string gradient;
  // The first version with a recorded digest, or the final weights, in which a
  // tensor differs, and the newest before it that agrees.
  std::optional<Version> version;
  Version agrees;
  std::string tensor;  // The first in the model's order.
};

struct ReplayReport {
  Version version;        // Up to which the log goes.
  int64_t gradients = 0;  // Recomputed.
  int64_t digests = 0;    // Compared, of one tensor's part on one shard each.
  std::string weights_sha256;  // As recomputed.
  // What the run's summary says; empty when it does not.
  std::string recorded_sha256;
  ReplayDifference difference;
  // What the newest log ends with that is no whole record: the run had come
  // further than `version`, perhaps.
  std::optional<TornTail> torn;

  // Everything that was recorded has the same bits.
  bool same() const {
    return !difference.update.has_value() && !difference.version.has_value() &&
           (recorded_sha256.empty() || recorded_sha256 == weights_sha256);
  }
};

// Recomputes a run, real or simulated, in this process alone from its job and
// its commit logs, those of the newest generation and of what it goes on from:
// which mini-batches, computed at which version of each shard,
// with which weights, made each update. Compares every gradient's loss, the
// digests in the log, and the final weights.
//
// Memory: as LocalTraining, which holds each version until its last use.
//
// kNotFound: no such folder, job or log. kDataLoss: the log is damaged, leaves
// out a version, or names what cannot have been; says where. Errors of the
// job's files.
absl::StatusOr<ReplayReport> ReplayRun(const std::string& run_dir);

}  // namespace sluice

#endif  // SLUICE_SIM_REPLAY_H_

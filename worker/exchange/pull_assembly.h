#ifndef SLUICE_WORKER_EXCHANGE_PULL_ASSEMBLY_H_
#define SLUICE_WORKER_EXCHANGE_PULL_ASSEMBLY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "common/ids.h"

namespace sluice {

// Follows the chunks of one shard's slice as they arrive: they must come in
// order, without gaps, all of one version, the one that was asked for, and end
// where the slice ends. So a slice is never a mixture of versions.
//
// Not thread-safe: call from one thread.
class PullAssembly {
 public:
  // Expects `floats` of exactly `version`, or of it or newer.
  PullAssembly(int64_t floats, Version version, bool exact)
      : floats_(floats), wanted_(version), exact_(exact) {}

  // Whether a chunk of `version` with `floats` at `offset` comes next.
  // kDataLoss says what was expected and what came.
  absl::Status Accept(Version version, int64_t offset, int64_t floats);

  // After the last chunk. kDataLoss when some are missing.
  absl::Status Finish() const;

  // Of the chunks so far. REQUIRES: one was accepted.
  Version version() const { return version_; }
  // Where the next chunk goes, in floats from the start of the range.
  int64_t received() const { return received_; }

 private:
  // Constant after construction.
  int64_t floats_;
  Version wanted_;
  bool exact_;

  int64_t received_ = 0;
  Version version_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXCHANGE_PULL_ASSEMBLY_H_

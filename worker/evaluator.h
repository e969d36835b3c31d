#ifndef SLUICE_WORKER_EVALUATOR_H_
#define SLUICE_WORKER_EVALUATOR_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/parameter_layout.h"
#include "proto/coordinator.pb.h"
#include "worker/compute/version_measure.h"
#include "worker/exchange/exchange.h"
#include "worker/task/cancel_token.h"

namespace sluice {

// Measures pinned versions on the whole test split and saves the last one's
// weights.
//
// Not thread-safe: call from the compute thread.
class Evaluator {
 public:
  struct Options {
    std::string weights_path;  // Of the final version; empty: not written.
    // How long a version that is not yet there is waited for.
    absl::Duration deadline = absl::Seconds(600);
    // How long a disk that does not take the weights is tried again.
    absl::Duration storage_timeout = absl::ZeroDuration();
    Clock* clock = Clock::Real();
  };
  // `exchanges`: of each of the measure's parts. All pointers must outlive the
  // evaluator.
  Evaluator(Options options, const ParameterLayout* layout,
            VersionMeasure* measure, std::vector<Exchange*> exchanges);

  // Blocks. What goes wrong is in the answer's `error`; the evaluator can go
  // on. An error instead of an answer: a shard is lost (ShardIsLost), what
  // measures is broken, or, kAborted, `cancel` was set before the end.
  absl::StatusOr<proto::Evaluated> Run(const proto::Evaluate& request,
                                       Generation generation,
                                       const CancelToken& cancel);

 private:
  absl::Status Measure(Version version, const VersionMeasure::Load& load,
                       const CancelToken& cancel, proto::Evaluated* answer);
  absl::Status Save(const VersionMeasure::Load& load, proto::Evaluated* answer);
  // Tries again as long as it is the disk that fails: `loaded` says so.
  absl::Status SaveWithRetries(const VersionMeasure::Load& load,
                               const std::function<bool()>& loaded,
                               const CancelToken& cancel,
                               proto::Evaluated* answer);

  // Constant after construction.
  const Options options_;
  const ParameterLayout& layout_;
  VersionMeasure& measure_;
  const std::vector<Exchange*> exchanges_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EVALUATOR_H_

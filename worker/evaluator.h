#ifndef SLUICE_WORKER_EVALUATOR_H_
#define SLUICE_WORKER_EVALUATOR_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/ids.h"
#include "common/parameter_layout.h"
#include "proto/coordinator.pb.h"
#include "worker/cancel_token.h"
#include "worker/data/data_source.h"
#include "worker/exchange/exchange.h"
#include "worker/model/model.h"

namespace sluice {

// Measures pinned versions on the whole test split, always in the same order,
// and saves the last one's weights.
//
// Not thread-safe: call from the compute thread.
class Evaluator {
 public:
  struct Options {
    int batch_size = 256;        // Samples per forward pass.
    bool classification = true;  // Accuracy is reported, too.
    std::string weights_path;    // Of the final version; empty: not written.
    // How long a version that is not yet there is waited for.
    absl::Duration deadline = absl::Seconds(600);
    Clock* clock = Clock::Real();
  };
  // All pointers must outlive the evaluator.
  Evaluator(Options options, const ParameterLayout* layout,
            const DataSource* test, Model* model, Exchange* exchange);

  // Blocks. What goes wrong is in the answer's `error`; the evaluator can go
  // on. An error instead of an answer: a shard is lost (ShardIsLost).
  absl::StatusOr<proto::Evaluated> Run(const proto::Evaluate& request,
                                       Generation generation,
                                       const CancelToken& cancel);

 private:
  absl::Status Pull(Version version, Generation generation,
                    const CancelToken& cancel);
  absl::Status Measure(const CancelToken& cancel, proto::Evaluated* answer);
  absl::Status Save(proto::Evaluated* answer);

  // Constant after construction.
  const Options options_;
  const ParameterLayout& layout_;
  const DataSource& test_;
  Model& model_;
  Exchange& exchange_;

  // Written before they are read.
  std::vector<float> weights_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EVALUATOR_H_

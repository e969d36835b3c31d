#ifndef SLUICE_WORKER_COMPUTE_MEASURE_H_
#define SLUICE_WORKER_COMPUTE_MEASURE_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/compute/version_measure.h"
#include "worker/data/data_source.h"
#include "worker/model/model.h"
#include "worker/task/cancel_token.h"

namespace sluice {

// What `result`, of the whole test split, says of a version; `labels`: how many
// there are in it; `damaged`: in how many places of damaged samples others
// stood.
Measurement MeasurementOf(const Model::Result& result, bool classification,
                          int64_t labels, int64_t damaged);

// Measures `model` at `weights` on all of `test`, `batch_size` samples a
// forward pass, always in the same order: the same bits every time. kAborted
// when `cancel` is set. REQUIRES: `test` is not empty, and `model` prepared for
// `batch_size`.
absl::StatusOr<Measurement> Measure(const DataSource& test, int batch_size,
                                    bool classification,
                                    absl::Span<const float> weights,
                                    const CancelToken& cancel, Model* model);

// Measures by the job's layers, in this process.
//
// Not thread-safe: call from the compute thread.
class NativeMeasure final : public VersionMeasure {
 public:
  struct Options {
    int batch_size = 256;        // Samples per forward pass.
    bool classification = true;  // Accuracy is measured, too.
    int64_t parameters = 0;      // Floats of Weights.
  };
  // `test` and `model`, which is prepared for `batch_size`, must outlive this.
  NativeMeasure(const Options& options, const DataSource* test, Model* model)
      : options_(options),
        test_(*test),
        model_(*model),
        weights_(options.parameters) {}

  absl::Span<float> Weights(int part) override {
    return absl::MakeSpan(weights_);
  }
  absl::StatusOr<Measurement> Measure(Version version, const Load& load,
                                      const CancelToken& cancel) override {
    return sluice::Measure(test_, options_.batch_size, options_.classification,
                           weights_, cancel, &model_);
  }

 private:
  // Constant after construction.
  const Options options_;
  const DataSource& test_;
  Model& model_;

  std::vector<float> weights_;  // Written before they are read.
};

}  // namespace sluice

#endif  // SLUICE_WORKER_COMPUTE_MEASURE_H_

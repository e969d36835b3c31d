#ifndef SLUICE_WORKER_MEASURE_H_
#define SLUICE_WORKER_MEASURE_H_

#include <cstdint>
#include <optional>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "worker/cancel_token.h"
#include "worker/data/data_source.h"
#include "worker/model/model.h"

namespace sluice {

struct Measurement {
  int64_t samples = 0;
  double loss = 0;                 // Mean over the samples.
  std::optional<double> accuracy;  // Share of labels; classification.
};

// Measures `model` at `weights` on all of `test`, `batch_size` samples a
// forward pass, always in the same order: the same bits every time. kAborted
// when `cancel` is set. REQUIRES: `test` is not empty, and `model` prepared for
// `batch_size`.
absl::StatusOr<Measurement> Measure(const DataSource& test, int batch_size,
                                    bool classification,
                                    absl::Span<const float> weights,
                                    const CancelToken& cancel, Model* model);

}  // namespace sluice

#endif  // SLUICE_WORKER_MEASURE_H_

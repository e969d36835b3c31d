#include "worker/compute/measure.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/status_macros.h"

namespace sluice {

Measurement MeasurementOf(const Model::Result& result, bool classification,
                          int64_t labels, int64_t damaged) {
  Measurement measurement;
  measurement.samples = result.samples;
  measurement.loss = result.loss;
  if (classification) {
    measurement.accuracy =
        static_cast<double>(result.correct) / static_cast<double>(labels);
  }
  if (damaged > 0) {
    measurement.logged["damaged_samples"] = static_cast<double>(damaged);
  }
  return measurement;
}

absl::StatusOr<Measurement> Measure(const DataSource& test, int batch_size,
                                    bool classification,
                                    absl::Span<const float> weights,
                                    const CancelToken& cancel, Model* model) {
  const int64_t damaged_before = test.damaged();
  int64_t at = 0, labels = 0;
  Batch batch;
  std::vector<int64_t> indices;
  absl::Status read;
  const auto next = [&]() -> const Batch* {
    if (at == test.size() || cancel.cancelled()) return nullptr;
    indices.resize(std::min<int64_t>(batch_size, test.size() - at));
    std::iota(indices.begin(), indices.end(), at);
    read = test.Gather(indices, &batch);
    if (!read.ok()) return nullptr;
    at += batch.samples;
    labels += static_cast<int64_t>(batch.labels.size());
    return &batch;
  };
  SLUICE_ASSIGN_OR_RETURN(const Model::Result result,
                          model->Evaluate(next, weights));
  SLUICE_RETURN_IF_ERROR(read);
  if (at < test.size()) return absl::AbortedError("given up");
  return MeasurementOf(result, classification, labels,
                       test.damaged() - damaged_before);
}

}  // namespace sluice

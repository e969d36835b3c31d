#include "worker/measure.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "common/status_macros.h"

namespace sluice {

absl::StatusOr<Measurement> Measure(const DataSource& test, int batch_size,
                                    bool classification,
                                    absl::Span<const float> weights,
                                    const CancelToken& cancel, Model* model) {
  double loss = 0;
  int64_t correct = 0, labels = 0;
  Batch batch;
  std::vector<int64_t> indices;
  for (int64_t at = 0; at < test.size(); at += batch_size) {
    if (cancel.cancelled()) return absl::AbortedError("the run is over");
    indices.resize(std::min<int64_t>(batch_size, test.size() - at));
    std::iota(indices.begin(), indices.end(), at);
    test.Gather(indices, &batch);
    SLUICE_ASSIGN_OR_RETURN(const Model::Result result,
                            model->Evaluate(batch, weights));
    loss += result.loss * static_cast<double>(batch.samples);
    correct += result.correct;
    labels += static_cast<int64_t>(batch.labels.size());
  }
  const double samples = static_cast<double>(test.size());
  Measurement measurement;
  measurement.samples = test.size();
  measurement.loss = loss / samples;
  if (classification) {
    measurement.accuracy =
        static_cast<double>(correct) / static_cast<double>(labels);
  }
  return measurement;
}

}  // namespace sluice

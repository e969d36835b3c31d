#ifndef SLUICE_WORKER_EXTERNAL_EXTERNAL_MEASURE_H_
#define SLUICE_WORKER_EXTERNAL_EXTERNAL_MEASURE_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/job/resolved_job.h"
#include "worker/compute/version_measure.h"
#include "worker/external/model_process.h"

namespace sluice {

// Measures versions by a model process, in memory that it shares.
//
// Wake and Abandon may be called from any thread.
//
// Not thread-safe: call from the compute thread.
class ExternalMeasure final : public VersionMeasure {
 public:
  // Starts `command` for the job's evaluator and waits until it is ready.
  // Errors as ModelProcess::Start. Blocks. REQUIRES: `job` has a
  // model.external; the calling thread lives as long as the process is to.
  static absl::StatusOr<std::unique_ptr<ExternalMeasure>> Start(
      const ResolvedJob& job, std::vector<std::string> command);

  absl::Span<float> Weights(int part) override { return process_->weights(0); }
  // Errors as ModelProcess::Evaluate.
  absl::StatusOr<Measurement> Measure(Version version, const Load& load,
                                      const CancelToken& cancel) override {
    return process_->Evaluate(version, process_->weights(0), cancel);
  }
  std::string OwnInput() const override { return process_->own_input(); }
  void Wake() override { process_->Wake(); }
  void Abandon() override { process_->Abandon(); }
  void LetEnd() override { process_->LetEnd(); }
  bool broken() const override { return process_->broken(); }

 private:
  explicit ExternalMeasure(std::unique_ptr<ModelProcess> process)
      : process_(std::move(process)) {}

  const std::unique_ptr<ModelProcess> process_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_EXTERNAL_EXTERNAL_MEASURE_H_

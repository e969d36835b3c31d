// The final version is saved before it is measured, so that its weights are
// there even if the user's program cannot measure them.
#include "worker/evaluator.h"

#include <utility>

#include "common/safetensors.h"
#include "common/status_macros.h"
#include "worker/rejoin_policy.h"
#include "worker/weights_digest.h"

namespace sluice {

Evaluator::Evaluator(Options options, const ParameterLayout* layout,
                     VersionMeasure* measure, Exchange* exchange)
    : options_(std::move(options)),
      layout_(*layout),
      measure_(*measure),
      exchange_(*exchange) {}

absl::StatusOr<proto::Evaluated> Evaluator::Run(const proto::Evaluate& request,
                                                Generation generation,
                                                const CancelToken& cancel) {
  proto::Evaluated answer;
  answer.set_version(request.version());
  const Version version(request.version());
  absl::Status status = Pull(version, generation, cancel);
  if (ShardIsLost(status)) return status;
  if (status.ok() && request.final()) status = Save(&answer);
  if (status.ok()) status = Measure(version, cancel, &answer);
  if (!status.ok() && measure_.broken()) return status;
  if (!status.ok()) answer.set_error(std::string(status.message()));
  return answer;
}

absl::Status Evaluator::Pull(Version version, Generation generation,
                             const CancelToken& cancel) {
  const PullSpec spec = {.generation = generation,
                         .version = version,
                         .exact = true,
                         .deadline = options_.clock->Now() + options_.deadline};
  return exchange_.Pull(spec, measure_.Weights(), cancel).status();
}

absl::Status Evaluator::Measure(Version version, const CancelToken& cancel,
                                proto::Evaluated* answer) {
  SLUICE_ASSIGN_OR_RETURN(const Measurement measured,
                          measure_.Measure(version, cancel));
  answer->set_samples(measured.samples);
  answer->set_loss(measured.loss);
  if (measured.accuracy.has_value()) answer->set_accuracy(*measured.accuracy);
  answer->mutable_logged()->insert(measured.logged.begin(),
                                   measured.logged.end());
  return absl::OkStatus();
}

absl::Status Evaluator::Save(proto::Evaluated* answer) {
  answer->set_weights_sha256(WeightsSha256(measure_.Weights()));
  if (options_.weights_path.empty()) return absl::OkStatus();
  return WriteSafetensors(options_.weights_path, layout_, measure_.Weights());
}

}  // namespace sluice

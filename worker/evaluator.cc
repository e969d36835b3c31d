#include "worker/evaluator.h"

#include <utility>

#include "common/safetensors.h"
#include "common/status_macros.h"
#include "worker/measure.h"
#include "worker/rejoin_policy.h"
#include "worker/weights_digest.h"

namespace sluice {

Evaluator::Evaluator(Options options, const ParameterLayout* layout,
                     const DataSource* test, Model* model, Exchange* exchange)
    : options_(std::move(options)),
      layout_(*layout),
      test_(*test),
      model_(*model),
      exchange_(*exchange),
      weights_(layout->size()) {}

absl::StatusOr<proto::Evaluated> Evaluator::Run(const proto::Evaluate& request,
                                                Generation generation,
                                                const CancelToken& cancel) {
  proto::Evaluated answer;
  answer.set_version(request.version());
  absl::Status status = Pull(Version(request.version()), generation, cancel);
  if (ShardIsLost(status)) return status;
  if (status.ok()) status = Measure(cancel, &answer);
  if (status.ok() && request.final()) status = Save(&answer);
  if (!status.ok()) answer.set_error(std::string(status.message()));
  return answer;
}

absl::Status Evaluator::Pull(Version version, Generation generation,
                             const CancelToken& cancel) {
  const PullSpec spec = {.generation = generation,
                         .version = version,
                         .exact = true,
                         .deadline = options_.clock->Now() + options_.deadline};
  return exchange_.Pull(spec, absl::MakeSpan(weights_), cancel).status();
}

absl::Status Evaluator::Measure(const CancelToken& cancel,
                                proto::Evaluated* answer) {
  SLUICE_ASSIGN_OR_RETURN(
      const Measurement measured,
      sluice::Measure(test_, options_.batch_size, options_.classification,
                      weights_, cancel, &model_));
  answer->set_samples(measured.samples);
  answer->set_loss(measured.loss);
  if (measured.accuracy.has_value()) answer->set_accuracy(*measured.accuracy);
  return absl::OkStatus();
}

absl::Status Evaluator::Save(proto::Evaluated* answer) {
  answer->set_weights_sha256(WeightsSha256(weights_));
  if (options_.weights_path.empty()) return absl::OkStatus();
  return WriteSafetensors(options_.weights_path, layout_, weights_);
}

}  // namespace sluice

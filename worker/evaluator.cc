#include "worker/evaluator.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/safetensors.h"
#include "common/status_macros.h"
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

proto::Evaluated Evaluator::Run(const proto::Evaluate& request,
                                Generation generation,
                                const CancelToken& cancel) {
  proto::Evaluated answer;
  answer.set_version(request.version());
  absl::Status status = Pull(Version(request.version()), generation, cancel);
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
  double loss = 0;
  int64_t correct = 0;
  std::vector<int64_t> indices;
  for (int64_t at = 0; at < test_.size(); at += options_.batch_size) {
    if (cancel.cancelled()) return absl::AbortedError("the run is over");
    indices.resize(std::min<int64_t>(options_.batch_size, test_.size() - at));
    std::iota(indices.begin(), indices.end(), at);
    test_.Gather(indices, &batch_);
    SLUICE_ASSIGN_OR_RETURN(const Model::Result result,
                            model_.Evaluate(batch_, weights_));
    loss += result.loss * static_cast<double>(batch_.samples);
    correct += result.correct;
  }
  const double samples = static_cast<double>(test_.size());
  answer->set_samples(test_.size());
  answer->set_loss(loss / samples);
  if (options_.classification) {
    answer->set_accuracy(static_cast<double>(correct) / samples);
  }
  return absl::OkStatus();
}

absl::Status Evaluator::Save(proto::Evaluated* answer) {
  answer->set_weights_sha256(WeightsSha256(weights_));
  if (options_.weights_path.empty()) return absl::OkStatus();
  return WriteSafetensors(options_.weights_path, layout_, weights_);
}

}  // namespace sluice

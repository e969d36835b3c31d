// The final version is saved before it is measured, so that its weights are
// there even if the user's program cannot measure them.
#include "worker/evaluator.h"

#include <utility>

#include "common/files/storage_retry.h"
#include "common/formats/safetensors.h"
#include "common/sha256.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"
#include "third_party/spdlog.h"
#include "worker/rejoin_policy.h"

namespace sluice {

Evaluator::Evaluator(Options options, const ParameterLayout* layout,
                     VersionMeasure* measure, std::vector<Exchange*> exchanges)
    : options_(std::move(options)),
      layout_(*layout),
      measure_(*measure),
      exchanges_(std::move(exchanges)) {
  SLUICE_CHECK(static_cast<int>(exchanges_.size()) == measure_.parts());
}

absl::StatusOr<proto::Evaluated> Evaluator::Run(const proto::Evaluate& request,
                                                Generation generation,
                                                const CancelToken& cancel) {
  proto::Evaluated answer;
  answer.set_version(request.version());
  const Version version(request.version());
  int loaded = -1;  // The part that is in the measure's memory.
  const VersionMeasure::Load load = [&](int part) {
    if (part == loaded) return absl::OkStatus();
    loaded = -1;
    const PullSpec spec = {
        .generation = generation,
        .version = version,
        .exact = true,
        .deadline = options_.clock->Now() + options_.deadline};
    SLUICE_RETURN_IF_ERROR(
        exchanges_[part]->Pull(spec, measure_.Weights(part), cancel).status());
    loaded = part;
    return absl::OkStatus();
  };
  absl::Status status = load(0);
  if (status.ok() && request.final()) {
    status = SaveWithRetries(
        load, [&loaded] { return loaded >= 0; }, cancel, &answer);
  }
  if (status.ok()) status = Measure(version, load, cancel, &answer);
  // Else the disk or the user's program failed, with the weights here.
  if (loaded < 0 && ShardIsLost(status)) return status;
  if (!status.ok() && measure_.broken()) return status;
  if (!status.ok() && cancel.cancelled()) {
    return absl::AbortedError(status.message());
  }
  if (!status.ok()) answer.set_error(std::string(status.message()));
  return answer;
}

absl::Status Evaluator::Measure(Version version,
                                const VersionMeasure::Load& load,
                                const CancelToken& cancel,
                                proto::Evaluated* answer) {
  SLUICE_ASSIGN_OR_RETURN(const Measurement measured,
                          measure_.Measure(version, load, cancel));
  answer->set_samples(measured.samples);
  answer->set_loss(measured.loss);
  if (measured.accuracy.has_value()) answer->set_accuracy(*measured.accuracy);
  answer->mutable_logged()->insert(measured.logged.begin(),
                                   measured.logged.end());
  return absl::OkStatus();
}

absl::Status Evaluator::SaveWithRetries(const VersionMeasure::Load& load,
                                        const std::function<bool()>& loaded,
                                        const CancelToken& cancel,
                                        proto::Evaluated* answer) {
  const auto pause = [&](const absl::Status& why, absl::Duration time) {
    if (!loaded()) return false;
    spdlog::warn("event=not_saved error={}", LogValue(why.message()));
    return !cancel.WaitFor(time);
  };
  return ReadWithRetries(options_.storage_timeout, options_.clock, pause,
                         [&]() -> absl::Status {
                           const absl::Status saved = Save(load, answer);
                           // Also of a disk that has no room: it may have some
                           // soon.
                           return saved.ok() || !loaded()
                                      ? saved
                                      : absl::UnavailableError(saved.message());
                         });
}

absl::Status Evaluator::Save(const VersionMeasure::Load& load,
                             proto::Evaluated* answer) {
  Sha256 sha;
  int part = 0;
  const auto next = [&]() -> absl::StatusOr<absl::Span<const float>> {
    SLUICE_RETURN_IF_ERROR(load(part));
    const absl::Span<const float> weights = measure_.Weights(part++);
    sha.Update(
        absl::MakeConstSpan(reinterpret_cast<const uint8_t*>(weights.data()),
                            weights.size() * sizeof(float)));
    return weights;
  };
  if (options_.weights_path.empty()) {
    while (part < measure_.parts()) SLUICE_RETURN_IF_ERROR(next().status());
  } else {
    SLUICE_RETURN_IF_ERROR(
        WriteSafetensors(options_.weights_path, layout_, next));
  }
  answer->set_weights_sha256(sha.Hex());
  return absl::OkStatus();
}

}  // namespace sluice

#include "worker/trainer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "common/key_proto.h"
#include "common/status_macros.h"
#include "kernels/optimizer_kernels.h"

namespace sluice {

Trainer::Trainer(const Options& options, const DataSource* data, Model* model,
                 Exchange* exchange)
    : options_(options),
      exchange_(*exchange),
      batch_gradient_(options.gradient, data, model),
      weights_(options.parameters),
      gradient_(options.parameters),
      progress_(options.clock->Now()) {}

Trainer::~Trainer() { exchange_.AbortPullAhead(); }

absl::StatusOr<Trainer::Answer> Trainer::Run(const proto::Task& task,
                                             const CancelToken& cancel) {
  progress_ = TaskProgress(options_.clock->Now());
  overflows_ = 0;
  absl::StatusOr<Answer> answer = RunStages(task, cancel);
  progress_.End(options_.clock->Now());
  if (answer.ok() && std::holds_alternative<proto::Ready>(*answer)) {
    auto& ready = std::get<proto::Ready>(*answer);
    ready.set_pull_seconds(progress_.seconds(Stage::kPull));
    ready.set_compute_seconds(progress_.compute_seconds());
    ready.set_push_seconds(progress_.seconds(Stage::kPush));
  }
  return answer;
}

absl::StatusOr<Trainer::Answer> Trainer::RunStages(const proto::Task& task,
                                                   const CancelToken& cancel) {
  BeginPull(task);
  absl::Status delayed = Straggle(task, cancel);
  if (!delayed.ok()) {
    exchange_.AbortPull();
    return delayed;
  }
  exchange_.BeginPush(KeyFromProto(task.key()), task.grant(), gradient_);
  const absl::StatusOr<Computed> computed = Compute(task, cancel);
  if (!computed.ok()) {
    exchange_.AbortPull();
    exchange_.AbortPush();
    return computed.status();
  }
  Enter(Stage::kPush);
  const absl::Status pushed = exchange_.FinishPush(cancel);
  if (absl::IsInvalidArgument(pushed)) {
    proto::Rejected rejected;
    *rejected.mutable_key() = task.key();
    rejected.set_reason(std::string(pushed.message()));
    return rejected;
  }
  SLUICE_RETURN_IF_ERROR(pushed);
  Travelled(Transfer::kPush, exchange_.push_travels());
  return MakeReady(task, *computed);
}

PullSpec Trainer::SpecFor(const proto::Task& task) const {
  return {.generation = Generation(task.key().generation()),
          .version = Version(task.version()),
          .exact = task.exact(),
          .deadline = options_.clock->Now() + options_.task_deadline};
}

void Trainer::BeginPull(const proto::Task& task) {
  const PullSpec spec = SpecFor(task);
  if (next_.has_value() && next_->SameWeights(spec)) {
    weights_.swap(next_weights_);
    next_.reset();
  }
  pulled_ = 0;
  exchange_.BeginPull(spec, absl::MakeSpan(weights_));
}

absl::StatusOr<int64_t> Trainer::AwaitWeights(int64_t end,
                                              const proto::Task& task,
                                              const CancelToken& cancel) {
  pulled_anew_ = false;
  if (end <= pulled_) return pulled_;
  Enter(Stage::kPull);
  SLUICE_ASSIGN_OR_RETURN(pulled_, exchange_.AwaitPulled(end, cancel));
  pulled_anew_ = pulled_ < end;
  if (pulled_anew_) return absl::AbortedError("a shard's weights come anew");
  if (pulled_ == options_.parameters) {
    SLUICE_ASSIGN_OR_RETURN(bases_, exchange_.FinishPull(cancel));
    Travelled(Transfer::kPull, exchange_.pull_travels());
    PullNext(task);
  }
  Enter(Stage::kForward);
  return pulled_;
}

void Trainer::PullNext(const proto::Task& task) {
  if (!task.exact()) return;
  PullSpec next = SpecFor(task);
  ++next.version;
  if (next_.has_value() && next_->SameWeights(next)) return;
  next_ = next;
  next_weights_.resize(weights_.size());
  exchange_.PullAhead(next, absl::MakeSpan(next_weights_));
}

absl::Status Trainer::Straggle(const proto::Task& task,
                               const CancelToken& cancel) {
  const double seconds = options_.delay.Draw(
      task.key().worker(), task.key().sequence(), task.batches());
  if (seconds == 0) return absl::OkStatus();
  do {
    const auto there = AwaitWeights(options_.parameters, task, cancel);
    if (!there.ok() && !pulled_anew_) return there.status();
  } while (pulled_anew_);
  Enter(Stage::kForward);  // It counts as computing.
  return options_.wait(absl::Seconds(seconds), cancel)
             ? absl::AbortedError("the task was cancelled")
             : absl::OkStatus();
}

absl::StatusOr<Trainer::Computed> Trainer::Compute(const proto::Task& task,
                                                   const CancelToken& cancel) {
  while (true) {
    auto computed = task.batches() > 1 ? ComputeLocalSteps(task, cancel)
                                       : ComputeOneBatch(task, cancel);
    if (!std::exchange(pulled_anew_, false)) return computed;
  }
}

absl::StatusOr<Trainer::Computed> Trainer::ComputeOneBatch(
    const proto::Task& task, const CancelToken& cancel) {
  return ComputeBatch(task, BatchId(task.first_batch()),
                      absl::MakeSpan(gradient_), cancel,
                      [this](int64_t from) { exchange_.PushFrom(from); });
}

absl::StatusOr<Trainer::Computed> Trainer::ComputeLocalSteps(
    const proto::Task& task, const CancelToken& cancel) {
  step_gradient_.resize(gradient_.size());
  const float rate = static_cast<float>(task.local_learning_rate());
  Computed total;
  for (int i = 0; i < task.batches(); ++i) {
    SLUICE_ASSIGN_OR_RETURN(
        const Computed computed,
        ComputeBatch(task, BatchId(task.first_batch()) + i,
                     absl::MakeSpan(step_gradient_), cancel, [](int64_t) {}));
    LocalStep(rate);
    if (i == 0) {
      gradient_ = step_gradient_;
    } else {
      for (size_t j = 0; j < gradient_.size(); ++j) {
        gradient_[j] += step_gradient_[j];
      }
    }
    total.samples += computed.samples;
    total.loss += computed.loss * static_cast<double>(computed.samples);
  }
  total.loss /= static_cast<double>(total.samples);
  for (const ParameterRange& range : options_.gradient.statistics) {
    for (int64_t j = range.begin; j < range.end; ++j) {
      gradient_[j] /= static_cast<float>(task.batches());
    }
  }
  exchange_.PushFrom(0);
  return total;
}

void Trainer::LocalStep(float rate) {
  const float one = 1;
  int64_t begin = 0;
  const auto move_until = [&](int64_t end) {
    const float* const step = step_gradient_.data() + begin;
    kernels::SgdUpdate({.learning_rate = rate},
                       {.gradients = absl::MakeSpan(&step, 1),
                        .weights = absl::MakeSpan(&one, 1)},
                       end - begin, weights_.data() + begin, nullptr,
                       weights_.data() + begin);
  };
  for (const ParameterRange& range : options_.gradient.statistics) {
    move_until(range.begin);
    begin = range.end;
  }
  move_until(options_.parameters);
}

absl::StatusOr<Trainer::Computed> Trainer::ComputeBatch(
    const proto::Task& task, BatchId batch, absl::Span<float> gradient,
    const CancelToken& cancel, const Model::OnGradientReady& on_ready) {
  BatchGradient::Observer observer;
  observer.on_forward = [this] {
    // Else it begins with the first weights.
    if (pulled_ == options_.parameters) Enter(Stage::kForward);
  };
  observer.on_backward = [this] { Enter(Stage::kBackward); };
  observer.on_ready = on_ready;
  observer.on_copy = [this](bool to_device, bool begin) {
    OnCopy(to_device, begin);
  };
  observer.await = [&](int64_t end) { return AwaitWeights(end, task, cancel); };
  auto computed =
      batch_gradient_.Compute(batch, weights_, gradient, cancel, observer);
  if (computed.ok()) overflows_ += computed->overflows;
  return computed;
}

void Trainer::Travelled(Transfer transfer,
                        const std::vector<Exchange::Travel>& travels) {
  for (const Exchange::Travel& travel : travels) {
    progress_.Travelled({transfer, travel.begin, travel.end});
  }
}

void Trainer::OnCopy(bool to_device, bool begin) {
  const absl::Time now = options_.clock->Now();
  const absl::Time before = std::exchange(copy_begin_[to_device ? 1 : 0], now);
  if (begin) return;
  Travelled(to_device ? Transfer::kToDevice : Transfer::kToHost,
            {{before, now}});
}

proto::Ready Trainer::MakeReady(const proto::Task& task,
                                const Computed& computed) const {
  proto::Ready ready;
  *ready.mutable_key() = task.key();
  for (const Version base : bases_) ready.add_shard_base(base.value());
  ready.set_samples(computed.samples);
  ready.set_loss(computed.loss);
  return ready;
}

}  // namespace sluice

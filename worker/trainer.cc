#include "worker/trainer.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/key_proto.h"
#include "common/status_macros.h"

namespace sluice {

Trainer::Trainer(const Options& options, const DataSource* data, Model* model,
                 Exchange* exchange)
    : options_(options),
      exchange_(*exchange),
      task_gradient_(options.gradient, data, model),
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
  if (task.batches() < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a task has ", task.batches(), " mini-batches, expected 1 or more"));
  }
  BeginPull(task);
  absl::Status delayed = Straggle(task, cancel);
  if (!delayed.ok()) {
    exchange_.AbortPull();
    return delayed;
  }
  exchange_.BeginPush(KeyFromProto(task.key()), task.grant(), gradient_);
  const absl::StatusOr<Model::Result> computed = Compute(task, cancel);
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
          // The coordinator bounds a task, and cancels one that takes too long.
          .deadline = absl::InfiniteFuture()};
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

absl::StatusOr<Model::Result> Trainer::Compute(const proto::Task& task,
                                               const CancelToken& cancel) {
  const Model::Observer observer = {
      .on_ready = [this](int64_t from) { exchange_.PushFrom(from); },
      .await = [&](int64_t end) { return AwaitWeights(end, task, cancel); },
      .on_forward =
          [this] {
            // Else it begins with the first weights.
            if (pulled_ == options_.parameters) Enter(Stage::kForward);
          },
      .on_backward = [this] { Enter(Stage::kBackward); },
      .on_copy = [this](bool to_device,
                        bool begin) { OnCopy(to_device, begin); }};
  const TaskGradient::Batches batches = {
      .first = BatchId(task.first_batch()),
      .count = task.batches(),
      .rate = static_cast<float>(task.local_learning_rate())};
  while (true) {
    auto computed = task_gradient_.Compute(
        batches, weights_, absl::MakeSpan(gradient_), cancel, observer);
    if (computed.ok()) overflows_ = computed->overflows;
    if (!std::exchange(pulled_anew_, false)) return computed;
  }
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
                                const Model::Result& computed) const {
  proto::Ready ready;
  *ready.mutable_key() = task.key();
  for (const Version base : bases_) ready.add_shard_base(base.value());
  ready.set_samples(computed.samples);
  ready.set_loss(computed.loss);
  return ready;
}

}  // namespace sluice

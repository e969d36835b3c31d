// How a task flows. Two objects are handed down to what computes, the weights
// as they come and the gradient as it goes:
//
//   Exchange --> PulledWeights --> TaskGradient --> PushedGradient --> Exchange
//    (pull)        WaitUntil         (compute)        FinalFrom         (push)
//
// What holds:
//   * A task computes on one pull's weights. Where that pull begins anew, what
//     was computed is void and computed again from its first float; nothing of
//     it has been pushed, because backward begins when all weights are there.
//   * `next_` is prefetched into memory of its own while a task computes, so
//     nothing that is under way writes into weights that are read.
//   * Whatever ends a task, neither a pull nor a push of it is under way then.
//
// A task of two layers, a (floats 0 to 9) and b (10 to 14), at version 5:
//
//   BeginPull(5)         all shards begin to send
//   WaitUntil(10)        stage pull; 12 floats are there: stage forward, a runs
//   WaitUntil(15)        stage pull; the pull is over: Prefetch(6), b runs
//   FinalFrom(10)        b's backward is done: its chunks travel
//   FinalFrom(0)         and a's
//   FinishPush           stage push; every shard has staged all of it: Ready
//
// Where the one shard is in the coordinator's process (takes_ready), the
// gradient's first floats wait for the end of the computation, and its Ready
// travels with them (PushLast): the next task may then be here before the
// shard's reply.
#include "worker/trainer.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/key_proto.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

PullSpec SpecFor(const proto::Task& task) {
  return {.generation = Generation(task.key().generation()),
          .version = Version(task.version()),
          .exact = task.exact(),
          // The coordinator bounds a task, and cancels one that takes too long.
          .deadline = absl::InfiniteFuture()};
}

void AddTravels(Transfer transfer, const std::vector<Exchange::Travel>& travels,
                TaskProgress* progress) {
  for (const Exchange::Travel& travel : travels) {
    progress->Travelled({transfer, travel.begin, travel.end});
  }
}

}  // namespace

// The weights of one task after the other. Only the time for which somebody
// waits for them is that of the stage "pull".
class Trainer::PulledWeights final : public WeightSource {
 public:
  // Pulls into memory of `memory`.
  PulledWeights(TaskGradient* memory, Exchange* exchange,
                TaskProgress* progress)
      : memory_(*memory),
        exchange_(*exchange),
        progress_(*progress),
        values_(memory->Weights(0)) {}
  ~PulledWeights() override { exchange_.AbortPrefetch(); }

  // `cancel` must stay until all are there, or Abort.
  void Begin(const proto::Task& task, const CancelToken* cancel) {
    spec_ = SpecFor(task);
    cancel_ = cancel;
    there_ = 0;
    const bool prefetched = next_.has_value() && next_->SameWeights(spec_);
    if (prefetched || memory_.keeps_weights()) {
      if (!prefetched) exchange_.AbortPrefetch();  // Its memory is wanted.
      if (next_values_.empty()) next_values_ = memory_.Weights(1);
      std::swap(values_, next_values_);
      next_.reset();
    }
    exchange_.BeginPull(spec_, values_);
  }
  void Abort() { exchange_.AbortPull(); }

  absl::Span<const float> values() const override { return values_; }
  absl::StatusOr<OrRestarted<int64_t>> WaitUntil(int64_t end) override;
  // Each shard's version. REQUIRES: all are there.
  const std::vector<Version>& bases() const { return bases_; }

 private:
  void PrefetchNext();

  // Constant after construction.
  TaskGradient& memory_;
  Exchange& exchange_;
  TaskProgress& progress_;

  PullSpec spec_;
  const CancelToken* cancel_ = nullptr;
  absl::Span<float> values_;
  int64_t there_ = 0;           // Floats of `values_`.
  std::vector<Version> bases_;  // When the pull is over.
  // What is prefetched, and where to, or where the next pull goes if the memory
  // keeps the weights before; empty until there are such tasks.
  std::optional<PullSpec> next_;
  absl::Span<float> next_values_;
};

absl::StatusOr<OrRestarted<int64_t>> Trainer::PulledWeights::WaitUntil(
    int64_t end) {
  if (end <= there_) return there_;
  progress_.Enter(Stage::kPull);
  SLUICE_ASSIGN_OR_RETURN(const auto pulled,
                          exchange_.AwaitPulled(end, *cancel_));
  there_ = IsRestarted(pulled) ? 0 : std::get<int64_t>(pulled);
  if (IsRestarted(pulled)) return Restarted{};
  if (there_ == static_cast<int64_t>(values_.size())) {
    SLUICE_ASSIGN_OR_RETURN(bases_, exchange_.FinishPull(*cancel_));
    AddTravels(Transfer::kPull, exchange_.pull_travels(), &progress_);
    PrefetchNext();
  }
  progress_.Enter(Stage::kForward);
  return there_;
}

// The version after that of a task that takes exactly one: whoever computes at
// v goes on at v+1, whether it delivers or is cancelled.
void Trainer::PulledWeights::PrefetchNext() {
  if (!spec_.exact) return;
  PullSpec next = spec_;
  ++next.version;
  if (next_.has_value() && next_->SameWeights(next)) return;
  next_ = next;
  if (next_values_.empty()) next_values_ = memory_.Weights(1);
  exchange_.Prefetch(next, next_values_);
}

// The gradient of one task after the other, pushed as it becomes final.
class Trainer::PushedGradient final : public GradientSink {
 public:
  // Pushes `values`.
  PushedGradient(absl::Span<float> values, Exchange* exchange,
                 TaskProgress* progress)
      : exchange_(*exchange), progress_(*progress), values_(values) {}

  void Begin(const proto::Task& task) {
    exchange_.BeginPush(KeyFromProto(task.key()), task.grant(), values_);
  }
  void Abort() { exchange_.AbortPush(); }

  absl::Span<float> values() override { return values_; }
  absl::Status FinalFrom(int64_t from) override {
    if (from > 0 || !exchange_.takes_ready()) exchange_.PushFrom(from);
    return absl::OkStatus();
  }
  // As Exchange::PushLast. REQUIRES: told().
  void Say(const proto::Ready& ready) { exchange_.PushLast(ready); }
  // As Exchange::FinishPush.
  absl::Status Finish(const CancelToken& cancel) {
    SLUICE_RETURN_IF_ERROR(exchange_.FinishPush(cancel));
    AddTravels(Transfer::kPush, exchange_.push_travels(), &progress_);
    return absl::OkStatus();
  }

  bool told() const { return exchange_.takes_ready(); }

 private:
  // Constant after construction.
  Exchange& exchange_;
  TaskProgress& progress_;
  const absl::Span<float> values_;
};

Trainer::Trainer(const Options& options, TaskGradient* gradient,
                 Exchange* exchange)
    : options_(options),
      task_gradient_(*gradient),
      progress_(options.clock),
      weights_(std::make_unique<PulledWeights>(gradient, exchange, &progress_)),
      gradient_(std::make_unique<PushedGradient>(gradient->Gradient(), exchange,
                                                 &progress_)) {}

Trainer::~Trainer() = default;

bool Trainer::told() const { return gradient_->told(); }

absl::StatusOr<Trainer::Answer> Trainer::Run(const proto::Task& task,
                                             const CancelToken& cancel) {
  progress_ = TaskProgress(options_.clock);
  overflows_ = 0;
  absl::StatusOr<Answer> answer = RunStages(task, cancel);
  progress_.End();
  if (answer.ok() && std::holds_alternative<proto::Ready>(*answer)) {
    push_seconds_ = progress_.seconds(Stage::kPush);
    std::get<proto::Ready>(*answer).set_push_seconds(push_seconds_);
  }
  return answer;
}

absl::StatusOr<Trainer::Answer> Trainer::RunStages(const proto::Task& task,
                                                   const CancelToken& cancel) {
  if (task.batches() < 1) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a task has ", task.batches(), " mini-batches, expected 1 or more"));
  }
  weights_->Begin(task, &cancel);
  const absl::Status delayed = Straggle(task, cancel);
  if (!delayed.ok()) {
    weights_->Abort();
    return delayed;
  }
  gradient_->Begin(task);
  const absl::StatusOr<Model::Result> computed = Compute(task, cancel);
  if (!computed.ok()) {
    weights_->Abort();
    gradient_->Abort();
    return computed.status();
  }
  overflows_ = computed->overflows;
  progress_.Enter(Stage::kPush);
  const proto::Ready ready = MakeReady(task, *computed);
  if (told()) {
    gradient_->Say(ready);
    PrepareNext();  // While the shard stages. It counts as pushing.
  }
  const absl::Status pushed = gradient_->Finish(cancel);
  if (absl::IsInvalidArgument(pushed)) {
    proto::Rejected rejected;
    *rejected.mutable_key() = task.key();
    rejected.set_reason(std::string(pushed.message()));
    return rejected;
  }
  SLUICE_RETURN_IF_ERROR(pushed);
  return ready;
}

absl::Status Trainer::Straggle(const proto::Task& task,
                               const CancelToken& cancel) {
  const double seconds = options_.delay.Draw(
      task.key().worker(), task.key().sequence(), task.batches());
  if (seconds == 0) return absl::OkStatus();
  while (true) {
    SLUICE_ASSIGN_OR_RETURN(const auto waited,
                            weights_->WaitUntil(weights_->values().size()));
    if (!IsRestarted(waited)) break;  // Nothing was computed from them.
  }
  progress_.Enter(Stage::kForward);  // It counts as computing.
  return options_.wait(absl::Seconds(seconds), cancel)
             ? absl::AbortedError("the task was cancelled")
             : absl::OkStatus();
}

absl::StatusOr<Model::Result> Trainer::Compute(const proto::Task& task,
                                               const CancelToken& cancel) {
  const TaskGradient::Batches batches = {
      .task = KeyFromProto(task.key()),
      .first = BatchId(task.first_batch()),
      .count = task.batches(),
      .rate = static_cast<float>(task.local_learning_rate())};
  while (true) {
    SLUICE_ASSIGN_OR_RETURN(
        const auto computed,
        task_gradient_.Compute(batches, *weights_, *gradient_, cancel,
                               &progress_));
    if (!IsRestarted(computed)) return std::get<Model::Result>(computed);
  }
}

proto::Ready Trainer::MakeReady(const proto::Task& task,
                                const Model::Result& computed) const {
  proto::Ready ready;
  *ready.mutable_key() = task.key();
  for (const Version base : weights_->bases()) {
    ready.add_shard_base(base.value());
  }
  ready.set_samples(computed.samples);
  ready.set_loss(computed.loss);
  ready.set_pull_seconds(progress_.seconds(Stage::kPull));
  ready.set_compute_seconds(progress_.compute_seconds());
  ready.set_push_seconds(push_seconds_);
  ready.mutable_logged()->insert(computed.logged.begin(),
                                 computed.logged.end());
  return ready;
}

}  // namespace sluice

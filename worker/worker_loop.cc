// Every task that is taken ends in one of three ways, and each is counted:
//
//  - delivered or rejected: the coordinator is told (Ready, Rejected);
//  - cancelled (kAborted): it is told nothing, because it ended the task
//    itself, or is about to: the version to pull is gone only when a newer one
//    was decided. (Of a push that brought its Ready and whose reply got lost,
//    the gradient may have been applied: the verdict says so.)
//  - any other error ends the loop, and with it this life of the worker.
//
// What a cancel saves is estimated: if delivered tasks took 2 s of computing in
// the mean, one that is cancelled after 0.5 s has saved 1.5 s.
#include "worker/worker_loop.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <variant>

#include "common/key_proto.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"
#include "third_party/spdlog.h"

namespace sluice {
namespace {

// The level of the `count`-th event of a kind that may come often: one, two,
// four, eight, ... show that it happens without filling the log.
spdlog::level::level_enum LevelFor(int64_t count,
                                   spdlog::level::level_enum level) {
  return (count & (count - 1)) == 0 ? level : spdlog::level::debug;
}

int64_t Microseconds(double seconds) { return std::llround(seconds * 1e6); }

}  // namespace

WorkerLoop::WorkerLoop(std::string coordinator, TaskInbox* inbox,
                       Trainer* trainer,
                       SharedCounters<WorkerCounters>* counters,
                       std::function<void(proto::ToCoordinator)> send,
                       Timeline* timeline)
    : coordinator_(std::move(coordinator)),
      inbox_(*inbox),
      trainer_(*trainer),
      counters_(*counters),
      send_(std::move(send)),
      timeline_(timeline) {}

absl::Status WorkerLoop::Run() {
  while (true) {
    const std::optional<proto::Task> task = inbox_.Next(kLogEvery);
    if (!task.has_value()) {
      if (inbox_.closed()) break;
      spdlog::debug("event=waiting for=task from=\"coordinator at {}\"",
                    coordinator_);
      continue;
    }
    const absl::Status status = RunTask(*task);
    inbox_.Done();
    SLUICE_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status WorkerLoop::RunTask(const proto::Task& task) {
  counters_.Add(&WorkerCounters::tasks_started);
  const absl::StatusOr<Trainer::Answer> answer =
      trainer_.Run(task, inbox_.token());
  counters_.Add(&WorkerCounters::compute_microseconds,
                Microseconds(trainer_.progress().compute_seconds()));
  if (trainer_.overflows() > 0) CountOverflows(task);
  if (answer.ok()) {
    Deliver(task, *answer);
    if (!trainer_.told()) trainer_.PrepareNext();
  } else if (absl::IsAborted(answer.status())) {
    CountCancelled(task, answer.status());
  } else {
    return answer.status();
  }
  Record(task, answer);
  return absl::OkStatus();
}

void WorkerLoop::Record(const proto::Task& task,
                        const absl::StatusOr<Trainer::Answer>& answer) {
  if (timeline_ == nullptr) return;
  const absl::string_view outcome =
      !answer.ok()                                       ? "cancelled"
      : std::holds_alternative<proto::Rejected>(*answer) ? "rejected"
                                                         : "delivered";
  timeline_->Add(task, trainer_.progress(), outcome);
}

void WorkerLoop::Deliver(const proto::Task& task,
                         const Trainer::Answer& answer) {
  proto::ToCoordinator message;
  const TaskProgress& progress = trainer_.progress();
  const std::string key = KeyFromProto(task.key()).ToString();
  if (const auto* rejected = std::get_if<proto::Rejected>(&answer)) {
    counters_.Add(&WorkerCounters::gradients_rejected);
    const int64_t total = counters_.Get().gradients_rejected;
    spdlog::log(LevelFor(total, spdlog::level::warn),
                "event=gradient_rejected key={} batch={} version={} "
                "reason={} rejected_total={}",
                key, task.first_batch(), task.version(),
                LogValue(rejected->reason()), total);
    *message.mutable_rejected() = *rejected;
  } else {
    counters_.Add(&WorkerCounters::gradients_delivered);
    delivered_compute_seconds_ += progress.compute_seconds();
    const auto& ready = std::get<proto::Ready>(answer);
    spdlog::debug(
        "event=gradient_delivered key={} batch={} version={} loss={:.6f} "
        "pull_seconds={:.6f} compute_seconds={:.6f} push_seconds={:.6f}",
        key, task.first_batch(), task.version(), ready.loss(),
        ready.pull_seconds(), ready.compute_seconds(), ready.push_seconds());
    if (trainer_.told()) return;
    *message.mutable_ready() = ready;
  }
  send_(std::move(message));
}

void WorkerLoop::CountOverflows(const proto::Task& task) {
  counters_.Add(&WorkerCounters::loss_overflows, trainer_.overflows());
  const int64_t total = counters_.Get().loss_overflows;
  spdlog::log(total == trainer_.overflows() ? spdlog::level::info
                                            : spdlog::level::debug,
              "event=gradient_dropped key={} batch={} version={} times={} "
              "reason=\"FP16 overflowed; computed again at half the loss "
              "scale\" loss_overflows_total={}",
              KeyFromProto(task.key()).ToString(), task.first_batch(),
              task.version(), trainer_.overflows(), total);
}

void WorkerLoop::CountCancelled(const proto::Task& task,
                                const absl::Status& why) {
  const TaskProgress& progress = trainer_.progress();
  const int64_t delivered = counters_.Get().gradients_delivered;
  const double mean = delivered == 0 ? 0
                                     : delivered_compute_seconds_ /
                                           static_cast<double>(delivered);
  const double saved = std::max(0.0, mean - progress.compute_seconds());
  counters_.Add(&WorkerCounters::saved_microseconds, Microseconds(saved));
  counters_.Add(&WorkerCounters::tasks_cancelled);
  const int64_t total = counters_.Get().tasks_cancelled;
  const std::string reason = inbox_.token().cancelled()
                                 ? inbox_.cancel_reason()
                                 : std::string(why.message());
  spdlog::log(LevelFor(total, spdlog::level::info),
              "event=task_cancelled key={} batch={} version={} during={} "
              "seconds={:.6f} compute_seconds={:.6f} saved_seconds={:.6f} "
              "reason={} cancelled_total={}",
              KeyFromProto(task.key()).ToString(), task.first_batch(),
              task.version(), std::string(StageName(progress.stage())),
              progress.total_seconds(), progress.compute_seconds(), saved,
              LogValue(reason), total);
}

}  // namespace sluice

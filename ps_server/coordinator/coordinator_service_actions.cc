// The half of CoordinatorService that carries out what the core decides, and
// keeps the time.

#include <utility>
#include <variant>

#include "common/status_macros.h"
#include "ps_server/coordinator/coordinator_service.h"
#include "ps_server/coordinator/event_conversion.h"
#include "spdlog/spdlog.h"

namespace sluice {
namespace {

// How often rates are measured for those who ask, however seldom metrics are
// written.
constexpr absl::Duration kRateEvery = absl::Seconds(1);

void Log(const Announce& announce) {
  switch (announce.level) {
    case Announce::Level::kInfo:
      return spdlog::info("{}", announce.text);
    case Announce::Level::kWarning:
      return spdlog::warn("{}", announce.text);
    case Announce::Level::kError:
      return spdlog::error("{}", announce.text);
  }
}

}  // namespace

// ---- What follows. ----

void CoordinatorService::CarryOut() {
  std::vector<std::shared_ptr<FrameSink>> touched;
  bool mine = false;
  while (true) {
    Actions actions;
    {
      absl::MutexLock lock(&mu_);
      touched = sessions_.TakeTouched();
      if ((carrying_ && !mine) || !sessions_.has_actions()) {
        if (mine) carrying_ = false;
        break;
      }
      carrying_ = mine = true;
      actions = sessions_.TakeActions();
    }
    for (const auto& stream : touched) stream->Flush();
    const absl::Status recorded = Record(actions);
    absl::MutexLock lock(&mu_);
    if (!recorded.ok() && !Over()) {
      failed_here_ = true;
      sessions_.Finish({std::string(recorded.message()), ""});
    }
    // Nothing that is not in the log may become known.
    if (failed_here_) continue;
    for (const Action& action : actions) {
      sessions_.Send(action, options_.clock->Now());
      if (const auto* done = std::get_if<RecordEvaluation>(&action)) {
        evaluations_.push_back(done->evaluation);
      }
    }
  }
  for (const auto& stream : touched) stream->Flush();
}

absl::Status CoordinatorService::Record(const Actions& actions) {
  const double seconds = absl::ToDoubleSeconds(options_.clock->Now() - start_);
  for (const Action& action : actions) {
    if (const auto* announce = std::get_if<Announce>(&action)) Log(*announce);
  }
  if (compute_times_ != nullptr) {
    const absl::Status status = compute_times_->Record(actions, seconds);
    if (!status.ok()) {
      spdlog::warn("event=compute_times error=\"{}\"", status.ToString());
    }
  }
  if (log_ == nullptr) return absl::OkStatus();
  const std::vector<proto::LogRecord> records = RecordsOf(actions, seconds);
  std::vector<int64_t> ends;
  SLUICE_RETURN_IF_ERROR(log_->Append(records, &ends));
  if (manifests_ != nullptr) manifests_->CarryOut(actions, records, ends);
  return absl::OkStatus();
}

std::vector<std::string> CoordinatorService::AwaitShards() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(this, &CoordinatorService::ShardsJoinedOrOver));
  return sessions_.ShardAddresses();
}

GenerationEnd CoordinatorService::AwaitEnd() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(this, &CoordinatorService::Over));
  mu_.AwaitWithTimeout(
      absl::Condition(this, &CoordinatorService::EverybodyTold),
      options_.farewell_timeout);
  return *sessions_.end();
}

// ---- Time. ----

JobState CoordinatorService::State() {
  absl::MutexLock lock(&mu_);
  return StateLocked(options_.clock->Now());
}

JobState CoordinatorService::StateLocked(absl::Time now) {
  JobState state = sessions_.State(now);
  if (failed_here_) {
    state.phase = Phase::kFailed;
    state.message = std::get<FinishRun>(*sessions_.end()).failure;
  }
  return state;
}

void CoordinatorService::TickLoop() {
  while (true) {
    {
      absl::MutexLock lock(&mu_);
      mu_.AwaitWithTimeout(absl::Condition(this, &CoordinatorService::Stopping),
                           options_.core.tick);
      if (stopping_) break;
      sessions_.Tick(options_.clock->Now());
    }
    if (options_.superseded != nullptr && options_.superseded()) {
      absl::MutexLock lock(&mu_);
      sessions_.Supersede();
    }
    CarryOut();
    WriteMetrics(/*last=*/false);
  }
  WriteMetrics(/*last=*/true);
}

void CoordinatorService::WriteMetrics(bool last) {
  std::vector<std::string> lines;
  {
    absl::MutexLock lock(&mu_);
    const absl::Time now = options_.clock->Now();
    const bool due = last || now >= next_metrics_;
    const bool measure = due || now >= next_rates_;
    if (!measure && evaluations_.empty()) return;
    const JobState state = StateLocked(now);
    if (state.phase == Phase::kStarting) return;
    if (measure) {
      rates_ = meter_.Update(state, now);
      next_rates_ = now + kRateEvery;
    }
    if (due) {
      next_metrics_ = now + options_.metrics_every;
      lines.push_back(MetricsLine(state, rates_, std::nullopt));
    }
    for (const Evaluation& evaluation : evaluations_) {
      lines.push_back(MetricsLine(state, rates_, evaluation));
    }
    evaluations_.clear();
  }
  if (metrics_ == nullptr) return;
  for (const std::string& line : lines) {
    const absl::Status status = metrics_->Write(line);
    if (!status.ok())
      spdlog::warn("event=metrics error=\"{}\"", status.ToString());
  }
}

}  // namespace sluice

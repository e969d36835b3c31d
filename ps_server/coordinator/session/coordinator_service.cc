// Who does what. Everybody decides under mu_, in sessions_, and returns at
// once; only the carrier carries out what was decided, so records and messages
// keep the order of the decisions, and a slow disk delays what is told but not
// what is heard:
//
//   endpoint   the last Ready: version 5 is decided; or, if it came with its
//              gradient, the one shard's exchange
//   carrier    takes the actions; appends the commit to the log, not under mu_
//   endpoint   hears heartbeats and another Ready meanwhile: decided, and waits
//   carrier    the log has it: Send under mu_, then Flush; the next batch
//   ticker     leases, deadlines, and once a second the rates
//   files      lines of metrics; whether somebody has taken the next generation
//   manifests  ManifestWriter's thread: OnManifest
//
// What is not in the log becomes known to nobody. If an append fails for good,
// nothing is sent any more but the end of the run; while the disk is full or
// does not answer, the carrier waits, and no time passes for the core: what
// that decided could be told to nobody.
#include "ps_server/coordinator/session/coordinator_service.h"

#include <utility>
#include <variant>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "common/await_for.h"
#include "common/files/storage_retry.h"
#include "common/key_proto.h"
#include "common/process/named_thread.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"
#include "ps_server/coordinator/report/job_status.h"
#include "ps_server/coordinator/session/frame_limits.h"
#include "ps_server/decisions/event_conversion.h"
#include "third_party/spdlog.h"

namespace sluice {
namespace {

// Over how long rates are averaged: smooth enough to read, quick enough to
// show that a run has stalled.
constexpr absl::Duration kRateWindow = absl::Seconds(5);

// How often rates are measured for those who ask, however seldom metrics are
// written.
constexpr absl::Duration kRateEvery = absl::Seconds(1);

// How often a full disk is tried: room shows within the second, and the
// attempts cost nothing.
constexpr absl::Duration kTryForRoomEvery = absl::Milliseconds(250);

// A write that takes longer is named to whoever asks what the run waits for,
// and nobody's time runs out over it. Shorter ones are everyday, one after the
// other, and must not hide that a peer is gone.
constexpr absl::Duration kSlowWrite = absl::Seconds(1);

// Of metrics, while they cannot be written; those that fall due later are left
// out. At one a second that is a quarter of an hour.
constexpr size_t kMostLines = 1000;

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

CoordinatorService::CoordinatorService(Options options, CommitLogWriter* log,
                                       MetricsWriter* metrics,
                                       ComputeTimesWriter* compute_times)
    : options_(std::move(options)),
      start_(options_.clock->Now()),
      log_(log),
      compute_times_(compute_times),
      metrics_(metrics),
      manifests_(options_.manifests.has_value()
                     ? std::make_unique<ManifestWriter>(
                           *options_.manifests, log,
                           [this](Version version, const absl::Status& status) {
                             OnManifest(version, status);
                           })
                     : nullptr),
      agreement_(options_.fingerprint, options_.job_text),
      sessions_(options_.core, start_),
      meter_(kRateWindow),
      next_rates_(start_),
      next_metrics_(start_) {
  ticker_ = StartThread("coord-tick", [this] { TickLoop(); });
  carrier_ = StartThread("coord-carry", [this] { CarryOutLoop(); });
  files_ = StartThread("coord-files", [this] { FilesLoop(); });
}

CoordinatorService::~CoordinatorService() {
  {
    absl::MutexLock lock(&mu_);
    stopping_ = true;
  }
  ticker_.join();
  // Before anything is gone that its answers need.
  if (manifests_ != nullptr) manifests_->Finish();
  {
    absl::MutexLock lock(&mu_);
    closing_ = true;
  }
  carrier_.join();
  files_.join();
}

// ---- What arrives. ----

void CoordinatorService::Flush(
    const std::vector<std::shared_ptr<FrameSink>>& touched) {
  for (const auto& connection : touched) connection->Flush();
}

void CoordinatorService::OnFrame(SessionStream* stream,
                                 const proto::ToCoordinator& frame) {
  Receive(stream->Share(), frame);
}

void CoordinatorService::Receive(const std::shared_ptr<FrameSink>& connection,
                                 const proto::ToCoordinator& frame) {
  absl::Status status =
      frame.has_join() ? CheckJoin(frame.join()) : absl::OkStatus();
  const auto readable = WithReadableReason(frame);
  std::vector<std::shared_ptr<FrameSink>> touched;
  if (status.ok()) {
    absl::MutexLock lock(&mu_);
    status =
        sessions_.OnFrame(connection, readable.has_value() ? *readable : frame,
                          options_.clock->Now());
    // What needs no record: a Welcome, a heartbeat, what was sent before.
    touched = sessions_.TakeTouched();
  }
  Flush(touched);
  if (status.ok()) return;
  if (refusals_.Due(options_.clock->Now())) {
    spdlog::warn("event=session_refused error={}", LogValue(status.ToString()));
  }
  connection->End(status);
  connection->Flush();
}

absl::Status CoordinatorService::CheckJoin(const proto::Join& join) const {
  SLUICE_RETURN_IF_ERROR(CheckNames(join));
  return agreement_.Check(join);
}

void CoordinatorService::OnBroken(SessionStream* stream) {
  absl::MutexLock lock(&mu_);
  sessions_.OnBroken(stream, options_.clock->Now());
}

void CoordinatorService::OnManifest(Version version,
                                    const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  sessions_.ManifestWritten(version, Readable(std::string(status.message())),
                            options_.clock->Now());
}

absl::Status CoordinatorService::CheckRun(const std::string& run_id) {
  if (run_id.empty() || run_id == options_.core.run_id) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("another run, ", options_.core.run_id,
                                          ", answers where run ", run_id,
                                          " listened"));
}

proto::JobStatus CoordinatorService::OnGetStatus() {
  const absl::Time now = options_.clock->Now();
  Rates rates;
  JobState state;
  {
    absl::MutexLock lock(&mu_);
    state = StateLocked(now);
    rates = rates_;
  }
  proto::JobStatus reply = StatusToProto(state, now);
  reply.set_name(options_.job_name);
  reply.set_run_id(options_.core.run_id);
  reply.set_policy(absl::StrCat(
      proto::Policy_Name(options_.core.job.sync().policy()), ", K=", state.k));
  reply.set_epochs_total(options_.epochs_total);
  reply.set_updates_per_second(rates.updates_per_second);
  reply.set_samples_per_second(rates.samples_per_second);
  return reply;
}

void CoordinatorService::OnStop(const proto::StopRequest& request) {
  RequestStop(Readable(request.reason()));
}

absl::StatusOr<proto::CheckpointReply>
CoordinatorService::OnRequestCheckpoint() {
  absl::MutexLock lock(&mu_);
  SLUICE_ASSIGN_OR_RETURN(const Version version,
                          sessions_.RequestCheckpoint(options_.clock->Now()));
  proto::CheckpointReply reply;
  reply.set_version(version.value());
  return reply;
}

absl::Status CoordinatorService::OnPushedReady(const GradientKey& key,
                                               const std::string& bytes) {
  proto::Ready ready;
  if (!ready.ParseFromString(bytes) || KeyFromProto(ready.key()) != key) {
    return absl::InvalidArgumentError(
        absl::StrCat("gradient ", key.ToString(), " comes with ", bytes.size(),
                     " bytes that are no Ready for it"));
  }
  absl::MutexLock lock(&mu_);
  return sessions_.OnReady(ready, options_.clock->Now());
}

absl::Status CoordinatorService::OnReportDeath(
    const proto::DeathReport& report) {
  absl::MutexLock lock(&mu_);
  return sessions_.OnDeathReport(report, options_.clock->Now());
}

void CoordinatorService::RequestStop(const std::string& reason) {
  absl::MutexLock lock(&mu_);
  stop_requested_ = true;
  sessions_.RequestStop(reason, options_.clock->Now());
}

// ---- What follows. ----

void CoordinatorService::CarryOutLoop() {
  while (true) {
    Actions actions;
    {
      absl::MutexLock lock(&mu_);
      mu_.Await(absl::Condition(this, &CoordinatorService::DecidedOrClosing));
      if (!sessions_.has_actions()) return;
      actions = sessions_.TakeActions();
    }
    CarryOut(actions);
  }
}

void CoordinatorService::CarryOut(const Actions& actions) {
  bool gap;
  {
    absl::MutexLock lock(&mu_);
    gap = unrecorded_;
    recording_ = !gap && log_ != nullptr;
    log_since_ = options_.clock->Now();
  }
  // A log with a gap would be taken for one that is whole.
  absl::Status recorded = gap ? absl::OkStatus() : Record(actions);
  {
    absl::MutexLock lock(&mu_);
    recording_ = false;
  }
  if (!gap && recorded.ok()) recorded = KeepResult(actions);
  std::vector<std::shared_ptr<FrameSink>> touched;
  {
    absl::MutexLock lock(&mu_);
    if (!recorded.ok()) {
      unrecorded_ = true;
      if (absl::IsPermissionDenied(recorded)) {
        sessions_.Supersede();
      } else {
        if (!Over()) failed_here_ = true;
        sessions_.Finish({Readable(std::string(recorded.message())), ""});
      }
    }
    // Nothing that is not in the log may become known.
    if (!unrecorded_) Send(actions);
    touched = sessions_.TakeTouched();
  }
  Flush(touched);
}

// Whoever has heard of the end is gone, and cannot help to reach it again.
absl::Status CoordinatorService::KeepResult(const Actions& actions) {
  if (!options_.keep_result) return absl::OkStatus();
  for (const Action& action : actions) {
    const auto* finish = std::get_if<FinishRun>(&action);
    if (finish == nullptr || !finish->failure.empty()) continue;
    JobState state = State();
    state.phase = Phase::kFinished;
    const absl::Status kept = options_.keep_result(state, *finish);
    if (absl::IsPermissionDenied(kept)) return kept;
    if (kept.ok()) continue;
    spdlog::warn("event=no_summary reason={}", LogValue(kept.message()));
  }
  return absl::OkStatus();
}

void CoordinatorService::Send(const Actions& actions) {
  for (const Action& action : actions) {
    sessions_.Send(action, options_.clock->Now());
    if (const auto* done = std::get_if<RecordEvaluation>(&action)) {
      evaluations_.push_back(done->evaluation);
    }
  }
}

absl::Status CoordinatorService::Record(const Actions& actions) {
  const double seconds = absl::ToDoubleSeconds(options_.clock->Now() - start_);
  for (const Action& action : actions) {
    if (const auto* announce = std::get_if<Announce>(&action)) Log(*announce);
  }
  if (compute_times_ != nullptr) {
    const absl::Status status = compute_times_->Record(actions, seconds);
    if (!status.ok()) {
      spdlog::warn("event=compute_times error={}", LogValue(status.ToString()));
    }
  }
  if (log_ == nullptr) return absl::OkStatus();
  const std::vector<proto::LogRecord> records = RecordsOf(actions, seconds);
  if (options_.goes_on && !goes_on_ &&
      absl::c_any_of(records, [](const auto& r) { return r.has_commit(); })) {
    SLUICE_RETURN_IF_ERROR(GoOn());
    goes_on_ = true;
  }
  SLUICE_RETURN_IF_ERROR(Append(records));
  if (manifests_ != nullptr) manifests_->CarryOut(actions);
  CutLog(actions);
  return absl::OkStatus();
}

absl::Status CoordinatorService::GoOn() {
  const auto pause = [this](const absl::Status& why, absl::Duration duration) {
    spdlog::warn("event=storage_retry pause_seconds={} error={}",
                 absl::ToDoubleSeconds(duration), LogValue(why.message()));
    absl::MutexLock lock(&mu_);
    return !AwaitFor(&mu_, absl::Condition(this, &CoordinatorService::Ending),
                     duration);
  };
  absl::Status status;
  do {
    status = ReadWithRetries(
        absl::Seconds(options_.core.job.limits().storage_timeout_s()),
        options_.clock, pause, options_.goes_on);
  } while (absl::IsResourceExhausted(status) && AwaitRoom(status));
  return status;
}

void CoordinatorService::CutLog(const Actions& actions) {
  const std::optional<Version> stored = StoredIn(actions);
  if (!stored.has_value()) return;
  const absl::Status cut = log_->Cut(*stored);
  if (cut.ok()) return;
  // It goes on in the file that it is in; the next checkpoint tries again.
  spdlog::warn("event=log_not_cut version={} error={}", stored->value(),
               LogValue(cut.message()));
}

absl::Status CoordinatorService::Append(
    const std::vector<proto::LogRecord>& records) {
  absl::Status appended = log_->Append(records);
  while (absl::IsResourceExhausted(appended) && AwaitRoom(appended)) {
    appended = log_->Append(records);
  }
  bool waited;
  absl::Time since;
  {
    absl::MutexLock lock(&mu_);
    waited = !std::exchange(log_waits_for_, "").empty();
    since = log_since_;
  }
  if (waited && appended.ok()) {
    spdlog::info("event=room_again seconds={}",
                 absl::ToDoubleSeconds(options_.clock->Now() - since));
  }
  return appended;
}

bool CoordinatorService::AwaitRoom(const absl::Status& failed) {
  const std::string what =
      Readable(absl::StrCat("room on the disk: ", failed.message()));
  bool first;
  {
    absl::MutexLock lock(&mu_);
    first = std::exchange(log_waits_for_, what).empty();
  }
  if (first) {
    spdlog::warn("event=no_room reason={}", LogValue(failed.message()));
  }
  absl::MutexLock lock(&mu_);
  return !AwaitFor(&mu_, absl::Condition(this, &CoordinatorService::Ending),
                   kTryForRoomEvery);
}

std::vector<std::string> CoordinatorService::AwaitShards() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(this, &CoordinatorService::ShardsJoinedOrOver));
  return sessions_.ShardAddresses();
}

bool CoordinatorService::AwaitOver(absl::Duration duration) {
  absl::MutexLock lock(&mu_);
  return AwaitFor(&mu_, absl::Condition(this, &CoordinatorService::Over),
                  duration);
}

GenerationEnd CoordinatorService::AwaitEnd() {
  absl::MutexLock lock(&mu_);
  mu_.Await(absl::Condition(this, &CoordinatorService::Over));
  AwaitFor(&mu_, absl::Condition(this, &CoordinatorService::EverybodyTold),
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
  } else if (state.phase == Phase::kFinished && !Over()) {
    state.phase = Phase::kFinishing;  // Until the result is kept.
  } else if (!log_waits_for_.empty()) {
    state.waiting_for = log_waits_for_;
    state.waiting_since = log_since_;
  } else if (RecordsSlowly(now)) {
    state.waiting_for =
        absl::StrCat("the disk, to take what ", log_->path(), " is to hold");
    state.waiting_since = log_since_;
  }
  return state;
}

bool CoordinatorService::RecordsSlowly(absl::Time now) const {
  return recording_ && now - log_since_ > kSlowWrite;
}

void CoordinatorService::TickLoop() {
  bool last = false;
  while (!last) {
    std::vector<std::shared_ptr<FrameSink>> touched;
    {
      absl::MutexLock lock(&mu_);
      last =
          AwaitFor(&mu_, absl::Condition(this, &CoordinatorService::Stopping),
                   options_.core.tick);
      const absl::Time now = options_.clock->Now();
      if (!log_waits_for_.empty() || RecordsSlowly(now)) {
        // What it decided could be told to nobody.
        sessions_.Stand(now);
      } else if (!last) {
        sessions_.Tick(now);
      }
      Measure(last);
      touched = sessions_.TakeTouched();
    }
    Flush(touched);
  }
}

void CoordinatorService::Measure(bool last) {
  const absl::Time now = options_.clock->Now();
  const bool due = last || (now >= next_metrics_ && lines_.size() < kMostLines);
  if (!due && now < next_rates_ && evaluations_.empty()) return;
  const JobState state = StateLocked(now);
  if (state.phase == Phase::kStarting) return;
  rates_ = meter_.Update(state, now);
  next_rates_ = now + kRateEvery;
  if (due) {
    next_metrics_ = now + options_.metrics_every;
    lines_.push_back(MetricsLine(state, rates_, std::nullopt));
  }
  for (const Evaluation& evaluation : evaluations_) {
    lines_.push_back(MetricsLine(state, rates_, evaluation));
  }
  evaluations_.clear();
}

// ---- Files that nobody waits for. ----

void CoordinatorService::FilesLoop() {
  bool last = false;
  while (!last) {
    const bool superseded =
        options_.superseded != nullptr && options_.superseded();
    std::vector<std::string> lines;
    std::vector<std::shared_ptr<FrameSink>> touched;
    {
      absl::MutexLock lock(&mu_);
      if (superseded) sessions_.Supersede();
      touched = sessions_.TakeTouched();
    }
    Flush(touched);
    {
      absl::MutexLock lock(&mu_);
      last = AwaitFor(&mu_, absl::Condition(this, &CoordinatorService::Closing),
                      options_.core.tick);
      lines.swap(lines_);
    }
    WriteMetrics(lines);
  }
}

void CoordinatorService::WriteMetrics(const std::vector<std::string>& lines) {
  if (metrics_ == nullptr) return;
  for (const std::string& line : lines) {
    const absl::Status status = metrics_->Write(line);
    if (!status.ok()) {
      spdlog::warn("event=metrics error={}", LogValue(status.ToString()));
    }
  }
}

}  // namespace sluice

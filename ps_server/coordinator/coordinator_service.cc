#include "ps_server/coordinator/coordinator_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/named_thread.h"
#include "ps_server/coordinator/event_conversion.h"
#include "ps_server/coordinator/policy_rules.h"
#include "spdlog/spdlog.h"

namespace sluice {
namespace {

// Over how long rates are averaged: smooth enough to read, quick enough to
// show that a run has stalled.
constexpr absl::Duration kRateWindow = absl::Seconds(5);

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
      sessions_({options_.core, options_.fingerprint, options_.job_text},
                start_),
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
  absl::Status status;
  std::vector<std::shared_ptr<FrameSink>> touched;
  {
    absl::MutexLock lock(&mu_);
    status = sessions_.OnFrame(connection, frame, options_.clock->Now());
    // What needs no record: a Welcome, a heartbeat, what was sent before.
    touched = sessions_.TakeTouched();
  }
  Flush(touched);
  if (status.ok()) return;
  spdlog::warn("event=session_refused error=\"{}\"", status.ToString());
  connection->End(status);
  connection->Flush();
}

void CoordinatorService::OnBroken(SessionStream* stream) {
  absl::MutexLock lock(&mu_);
  sessions_.OnBroken(stream, options_.clock->Now());
}

void CoordinatorService::OnManifest(Version version,
                                    const absl::Status& status) {
  absl::MutexLock lock(&mu_);
  sessions_.ManifestWritten(version, std::string(status.message()),
                            options_.clock->Now());
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
  reply.set_run_id(options_.run_id);
  reply.set_policy(
      absl::StrCat(PolicyName(options_.core.sync.policy), ", K=", state.k));
  reply.set_epochs_total(options_.epochs_total);
  reply.set_updates_per_second(rates.updates_per_second);
  reply.set_samples_per_second(rates.samples_per_second);
  return reply;
}

void CoordinatorService::OnStop(const proto::StopRequest& request) {
  RequestStop(request.reason());
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

}  // namespace sluice

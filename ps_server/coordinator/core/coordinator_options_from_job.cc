#include "ps_server/coordinator/core/coordinator_options_from_job.h"

#include "common/job_learning_rate.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

PolicyKind PolicyFromJob(proto::Policy policy) {
  switch (policy) {
    case proto::SYNC:
      return PolicyKind::kSync;
    case proto::K_SYNC:
      return PolicyKind::kKSync;
    case proto::K_BATCH_SYNC:
      return PolicyKind::kKBatchSync;
    case proto::ASYNC:
      return PolicyKind::kAsync;
    case proto::K_ASYNC:
      return PolicyKind::kKAsync;
    case proto::K_BATCH_ASYNC:
      return PolicyKind::kKBatchAsync;
    default:
      break;
  }
  SLUICE_CHECK(!"a resolved job has a policy");
}

StalenessAction ActionFromJob(proto::Staleness::Action action) {
  switch (action) {
    case proto::Staleness::WAIT:
      return StalenessAction::kWait;
    case proto::Staleness::DROP:
      return StalenessAction::kDrop;
    case proto::Staleness::CANCEL:
      return StalenessAction::kCancel;
    case proto::Staleness::DOWNWEIGHT:
      return StalenessAction::kDownweight;
    default:
      break;
  }
  SLUICE_CHECK(!"a resolved staleness bound has an action");
}

KScheduleOptions KScheduleFromJob(const proto::KSchedule& schedule) {
  switch (schedule.kind_case()) {
    case proto::KSchedule::kByVersion: {
      KByVersion by_version;
      for (const proto::KChange& change : schedule.by_version().change()) {
        by_version.changes.push_back({change.from_version(), change.k()});
      }
      return by_version;
    }
    case proto::KSchedule::kAdaptive:
      return AdaptiveK{schedule.adaptive().max_k(),
                       schedule.adaptive().smoothing_updates()};
    case proto::KSchedule::kFixed:
    case proto::KSchedule::KIND_NOT_SET:
      break;
  }
  return FixedK{};
}

SyncOptions SyncFromJob(const proto::Sync& sync) {
  SyncOptions options;
  options.policy = PolicyFromJob(sync.policy());
  options.k = sync.k();
  options.k_schedule = KScheduleFromJob(sync.k_schedule());
  options.gradients_per_update = sync.gradients_per_update();
  if (sync.has_staleness()) {
    options.staleness = StalenessBound{
        sync.staleness().bound(), ActionFromJob(sync.staleness().action())};
  }
  options.local_steps = sync.local_steps();
  options.on_shortage = sync.on_shortage() == proto::SHRINK
                            ? OnShortage::kShrink
                            : OnShortage::kWait;
  options.shortage_timeout = absl::Seconds(sync.shortage_timeout_s());
  options.on_bad_gradient = sync.on_bad_gradient() == proto::SKIP
                                ? OnBadGradient::kSkip
                                : OnBadGradient::kFail;
  options.warm_start_updates = sync.warm_start_updates();
  return options;
}

StopOptions StopFromJob(const proto::Stop& stop) {
  StopOptions options;
  if (stop.has_epochs()) options.epochs = stop.epochs();
  if (stop.has_updates()) options.updates = stop.updates();
  if (stop.has_seconds()) options.time = absl::Seconds(stop.seconds());
  if (stop.has_target_accuracy()) {
    options.target_accuracy = stop.target_accuracy();
  }
  return options;
}

}  // namespace

CoordinatorOptions CoordinatorOptionsFromJob(const ResolvedJob& resolved,
                                             uint64_t grant_secret) {
  const proto::Job& job = resolved.job;
  const proto::Limits& limits = job.limits();
  const double epoch_samples = static_cast<double>(resolved.data.train_samples);
  CoordinatorOptions options;
  options.grant_secret = grant_secret;
  options.workers = job.cluster().workers();
  options.max_workers = job.cluster().max_workers();
  options.shards = job.cluster().shards();
  options.evaluator = job.evaluation().enabled();
  options.sync = SyncFromJob(job.sync());
  options.learning_rate = JobLearningRate(resolved);
  options.stop = StopFromJob(job.stop());
  options.train_samples = resolved.data.train_samples;
  options.batch_size = job.data().batch_size();
  options.static_partitions = job.data().sharding() == proto::Data::STATIC;
  options.evaluate_every_samples =
      job.evaluation().every_epochs() * epoch_samples;
  options.checkpoints.every_updates = job.checkpoint().every_updates();
  options.checkpoints.every = absl::Seconds(job.checkpoint().every_s());
  options.checkpoints.keep = job.checkpoint().keep();
  options.staged_gradients = limits.staged_gradients();
  options.commit_window = limits.commit_window();
  options.lease = absl::Seconds(limits.lease_s());
  options.task_deadline = absl::Seconds(limits.task_deadline_s());
  options.start_timeout = absl::Seconds(limits.start_timeout_s());
  options.regroup_timeout = absl::Seconds(limits.regroup_timeout_s());
  return options;
}

}  // namespace sluice

#include "sim/theory/job_theory.h"

#include "common/job/group.h"

namespace sluice {
namespace {

// Whether shards have room for all gradients that are under way at once, so
// that no worker has to wait for it.
bool RoomForAll(const proto::Job& job) {
  const proto::Sync& sync = job.sync();
  // Those that wait for others while every worker computes one more.
  const int waiting = sync.policy() == proto::K_BATCH_SYNC ||
                              sync.policy() == proto::K_BATCH_ASYNC
                          ? sync.k() - 1
                          : 0;
  return job.limits().staged_gradients() >= job.cluster().workers() + waiting;
}

// Whether the formulas apply: the task times of all workers are independent and
// of one distribution, and only they and the policy decide when an update is
// made.
bool OnTheirGround(const proto::Job& job) {
  const proto::Sync& sync = job.sync();
  const proto::Delays& delays = job.delays();
  const proto::KSchedule& schedule = sync.k_schedule();
  return StageCount(job) == 1 && SlotsOf(job) == 1 && !delays.has_latency() &&
         !delays.has_worker_bandwidth() && !delays.has_shard_bandwidth() &&
         delays.worker_factor_size() == 0 && !sync.has_staleness() &&
         sync.local_steps() == 1 && sync.warm_start_updates() == 0 &&
         RoomForAll(job) && !schedule.has_by_version() &&
         !schedule.has_adaptive() &&
         (sync.policy() != proto::SYNC ||
          sync.gradients_per_update() == job.cluster().workers());
}

}  // namespace

std::optional<UpdateTime> UpdateTimeOf(const ResolvedJob& job) {
  if (!OnTheirGround(job.job)) return std::nullopt;
  const proto::Sync& sync = job.job.sync();
  const int workers = job.job.cluster().workers();
  const auto shifted = [&](double shift_ms, double mean_ms) {
    return ShiftedExponentialUpdateTime(sync.policy(), workers, sync.k(),
                                        shift_ms / 1e3, mean_ms / 1e3);
  };
  const proto::Delay& delay = job.job.delays().compute();
  switch (delay.kind_case()) {
    case proto::Delay::kExponential:
      return shifted(0, delay.exponential().mean_ms());
    case proto::Delay::kShiftedExponential:
      return shifted(delay.shifted_exponential().shift_ms(),
                     delay.shifted_exponential().mean_ms());
    case proto::Delay::kConstant: {
      const double seconds = ConstantUpdateTime(
          sync.policy(), workers, sync.k(), delay.constant().ms() / 1e3);
      return UpdateTime{seconds, seconds};
    }
    default:
      return std::nullopt;
  }
}

}  // namespace sluice

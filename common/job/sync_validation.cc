#include <algorithm>
#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/job/job_checker.h"

namespace sluice {
namespace {

// Far above any use, and small enough that a product of two cannot overflow.
constexpr int kMany = 1 << 20;
constexpr int64_t kMostVersions = int64_t{1} << 53;

// The bound on K, and the reason for it in messages.
struct MostK {
  int k = 65536;
  std::string why;
};

MostK MostKOf(const proto::Job& job) {
  const proto::Policy policy = job.sync().policy();
  const std::string under = absl::StrCat(" under ", proto::Policy_Name(policy));
  if (policy != proto::K_SYNC && policy != proto::K_ASYNC)
    return {65536, under};
  // Without a worker that alone is complained of.
  return {std::max(1, job.cluster().workers()),
          absl::StrCat(" (cluster.workers)", under)};
}

void CheckByVersion(const proto::KByVersion& by_version, const MostK& most,
                    Checker* check) {
  const std::string path = "sync.k_schedule.by_version.change";
  check->Require(by_version.change_size() > 0, path,
                 "must have at least one, has none");
  int64_t least = 0;
  for (int i = 0; i < by_version.change_size(); ++i) {
    const proto::KChange& change = by_version.change(i);
    const std::string prefix = absl::StrCat(path, "[", i, "]");
    const std::string from = absl::StrCat(prefix, ".from_version");
    check->Require(change.has_from_version(), from, "must be set");
    if (change.has_from_version()) {
      check->Between(from, change.from_version(), least, kMostVersions);
    }
    check->Between(absl::StrCat(prefix, ".k"), change.k(), 1, most.k, most.why);
    // Later changes must have larger versions. The clamp avoids an overflow if
    // a version is out of bounds, which has been reported.
    least = std::clamp(change.from_version(), least, kMostVersions - 1) + 1;
  }
}

void CheckKSchedule(const proto::Job& job, const MostK& most, Checker* check) {
  const proto::KSchedule& schedule = job.sync().k_schedule();
  if (schedule.has_by_version()) {
    CheckByVersion(schedule.by_version(), most, check);
  }
  if (!schedule.has_adaptive()) return;
  const std::string prefix = "sync.k_schedule.adaptive";
  check->Between(absl::StrCat(prefix, ".max_k"), schedule.adaptive().max_k(),
                 std::max(1, job.sync().k()), most.k, most.why);
  check->Between(absl::StrCat(prefix, ".smoothing_updates"),
                 schedule.adaptive().smoothing_updates(), 1, kMany);
}

void CheckK(const proto::Job& job, Checker* check) {
  const proto::Sync& sync = job.sync();
  const int workers = job.cluster().workers();
  const bool has_k =
      sync.policy() != proto::SYNC && sync.policy() != proto::ASYNC;
  if (has_k) {
    const MostK most = MostKOf(job);
    check->Between("sync.k", sync.k(), 1, most.k, most.why);
    return CheckKSchedule(job, most, check);
  }
  check->Between("sync.k", sync.k(), 1, 65536);  // It has no effect.
  check->Require(
      !sync.has_k_schedule(), "sync.k_schedule",
      absl::StrCat("must not be set under ", proto::Policy_Name(sync.policy()),
                   ", which has no K"));
  if (sync.policy() == proto::ASYNC) return;
  check->Between("sync.gradients_per_update", sync.gradients_per_update(), 1,
                 65536);
  if (job.data().sharding() != proto::Data::STATIC) return;
  check->Require(
      sync.gradients_per_update() == workers, "sync.gradients_per_update",
      absl::StrCat("must be ", workers,
                   " (cluster.workers, the partitions) under SYNC with "
                   "data.sharding STATIC, is ",
                   sync.gradients_per_update()));
}

}  // namespace

void CheckSync(const proto::Job& job, Checker* check) {
  const proto::Sync& sync = job.sync();
  CheckK(job, check);
  if (sync.has_staleness()) {
    check->Require(sync.staleness().has_bound(), "sync.staleness.bound",
                   "must be set, 0 or more");
    check->Between("sync.staleness.bound", sync.staleness().bound(), 0, kMany);
  }
  check->Between("sync.local_steps", sync.local_steps(), 1, 65536);
  check->Require(
      sync.local_steps() <= 1 || job.data().sharding() != proto::Data::STATIC,
      "sync.local_steps",
      absl::StrCat("must be 1 with data.sharding STATIC, is ",
                   sync.local_steps()));
  check->AboveZero("sync.shortage_timeout_s", sync.shortage_timeout_s());
  check->AtLeast("sync.warm_start_updates", sync.warm_start_updates(), 0);
}

}  // namespace sluice

#include "cli/report/checkpoint_outcome.h"

#include "absl/strings/str_cat.h"
#include "cli/report/run_result.h"

namespace sluice {
namespace {

int64_t Failed(const proto::JobStatus& status) {
  const auto failed = status.counters().find("checkpoints.failed");
  return failed == status.counters().end() ? 0 : failed->second;
}

}  // namespace

std::optional<absl::Status> CheckpointOutcome(int64_t version,
                                              const proto::JobStatus& before,
                                              const proto::JobStatus& now) {
  const proto::CheckpointStatus& checkpoint = now.checkpoint();
  const bool recovered = now.generation() != before.generation();
  // A generation goes on from the newest whole checkpoint of those before.
  if (recovered && now.recovery().restored_version() < version) {
    return absl::AbortedError(absl::StrCat(
        "the shards or the coordinator were lost before version ", version,
        " was written; generation ", now.generation(), " goes on from version ",
        now.recovery().restored_version()));
  }
  if (recovered || (checkpoint.has_newest_version() &&
                    checkpoint.newest_version() >= version)) {
    return absl::OkStatus();
  }
  if (Failed(now) > Failed(before)) {
    return absl::UnavailableError(checkpoint.last_error());
  }
  if (IsOver(now)) {
    return absl::UnavailableError(absl::StrCat(
        "the run ended with version ", now.version(), " before version ",
        version, " was written: ", now.message()));
  }
  return std::nullopt;
}

}  // namespace sluice

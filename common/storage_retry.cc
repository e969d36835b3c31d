#include "common/storage_retry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/await_for.h"

namespace sluice {
namespace {

// A server of files that fails over answers again after seconds; a lost
// packet's worth of waiting is the least.
constexpr absl::Duration kFirstPause = absl::Milliseconds(50);
constexpr absl::Duration kLongestPause = absl::Seconds(1);

}  // namespace

StorageRetry::StorageRetry(absl::Duration timeout, absl::Time now)
    : until_(now + timeout), pause_(kFirstPause) {}

std::optional<absl::Duration> StorageRetry::PauseAfter(
    const absl::Status& status, absl::Time now) {
  if (!absl::IsUnavailable(status) || now >= until_) return std::nullopt;
  const absl::Duration pause = std::min(pause_, until_ - now);
  pause_ = std::min(2 * pause_, kLongestPause);
  return pause;
}

bool StoppablePause::For(absl::Duration duration) {
  absl::MutexLock lock(&mu_);
  return !AwaitFor(&mu_, absl::Condition(&stopped_), duration);
}

void StoppablePause::Stop() {
  absl::MutexLock lock(&mu_);
  stopped_ = true;
}

absl::Status StorageGivenUp(const absl::Status& status,
                            absl::Duration timeout) {
  return absl::UnavailableError(absl::StrCat(
      std::string(status.message()), "; tried for ",
      absl::FormatDuration(timeout), " (limits.storage_timeout_s)"));
}

}  // namespace sluice

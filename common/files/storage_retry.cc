// With a timeout of 3 s, attempts that fail at once are made at 0, 50, 150, 350
// and 750 ms, then at 1.55, 2.55 and 3 s. The last attempt is made when the
// timeout has just passed, so that it always covers the whole time.
#include "common/files/storage_retry.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/await_for.h"

namespace sluice {
namespace {

// A file server that fails over answers again after seconds. The shortest pause
// is about that for a lost packet.
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

// All calls may be silent for the same time, so the order in which they were
// last heard of is the order in which they are due, and a list keeps it.
//
//   00 s   Begin(a)     a          the alarm is set to 30
//   10 s   Begin(b)     a b
//   20 s   Begin(a)     b a        progress; the alarm stays
//   30 s   it rings     b a        nobody is due: it is set to 40
//   40 s   it rings     a          b has stalled; it is set to 50
#include "common/rpc/stall_watch.h"

#include "common/rpc/deadline.h"

namespace sluice {

void StallWatch::Begin(Watched* call) {
  call->since_ = clock_.Now();
  if (call->place_.has_value()) {
    calls_.splice(calls_.end(), calls_, *call->place_);
    return;
  }
  call->place_ = calls_.insert(calls_.end(), call);
  if (!alarm_.has_value()) SetAlarm();
}

void StallWatch::End(Watched* call) {
  if (!call->place_.has_value()) return;
  calls_.erase(*call->place_);
  call->place_.reset();
}

void StallWatch::Stop() {
  stopped_ = true;
  if (alarm_.has_value()) alarm_->Cancel();
}

void StallWatch::SetAlarm() {
  if (stopped_) return;
  const absl::Duration silent = clock_.Now() - calls_.front()->since_;
  alarm_.emplace();
  alarm_->Set(queue_, FromNow(most_ - silent), address());
}

void StallWatch::Complete(bool ok) {
  alarm_.reset();
  if (stopped_) return;
  while (!calls_.empty()) {
    Watched* const first = calls_.front();
    const absl::Duration silent = clock_.Now() - first->since_;
    if (silent < most_) break;
    End(first);
    first->OnStalled(silent);
  }
  // One of those may have begun something, and set it.
  if (!calls_.empty() && !alarm_.has_value()) SetAlarm();
}

}  // namespace sluice

// The calls run where the loop is served and tell what happens to them (On...);
// whoever waits for them decides what to do about it (DriveUntil). Under the
// lock there is only bookkeeping: calls are repeated and cancelled without it,
// because that calls into gRPC, which may call back.
//
// Shard 1 dies and comes back while a pull is waited for:
//
//   loop     OnCallEnded(1, UNAVAILABLE)   to be repeated in 20 ms
//   waiter   wakes: the next repetition has changed; waits for those 20 ms
//   waiter   TakeDue: {1}; hands.repeat(1) begins the next call
//   loop     OnCallEnded(1, UNAVAILABLE)   to be repeated in 40 ms
//   ...      until the shard answers, or has not for limits.partition
//   loop     OnMoved(1), OnProgress(1, n)  it is reached again
#include "worker/exchange/call_driver.h"

#include <algorithm>
#include <utility>

#include "common/telemetry/log_value.h"
#include "third_party/spdlog.h"

namespace sluice {

CallDriver::CallDriver(std::vector<std::string> names, CallLimits limits,
                       Clock* clock, CompletionLoop* loop)
    : names_(std::move(names)),
      limits_(limits),
      clock_(clock),
      loop_(*loop),
      calls_({}, limits_) {}

void CallDriver::Begin() {
  absl::MutexLock lock(&mu_);
  calls_ = ShardCalls(names_, limits_);
  travelling_.clear();
  travels_.clear();
}

absl::Status CallDriver::Drive(absl::Time deadline, const CancelToken& cancel,
                               const Hands& hands) {
  return DriveUntil([](const ShardCalls& calls) { return calls.succeeded(); },
                    deadline, cancel, hands);
}

absl::Status CallDriver::DriveTo(absl::Span<const int64_t> floats,
                                 absl::Time deadline, const CancelToken& cancel,
                                 const Hands& hands) {
  return DriveUntil(
      [floats](const ShardCalls& calls) { return calls.reached(floats); },
      deadline, cancel, hands);
}

absl::Status CallDriver::DriveUntil(const Enough& enough, absl::Time deadline,
                                    const CancelToken& cancel,
                                    const Hands& hands) {
  while (true) {
    AwaitNews(enough, deadline, cancel);
    const absl::Time now = clock_->Now();
    std::vector<int> due, stalled;
    {
      absl::MutexLock lock(&mu_);
      if (enough(calls_)) return absl::OkStatus();
      if (cancel.cancelled()) return absl::AbortedError("cancelled");
      if (!calls_.failure().ok()) return calls_.failure();
      if (now >= deadline) return calls_.DescribeWait();
      due = calls_.TakeDue(now);
      stalled = calls_.TakeStalled(now);
    }
    for (const int shard : stalled) {
      spdlog::warn("event=call_stalled peer={} seconds={:.0f}",
                   LogValue(names_[shard]),
                   absl::ToDoubleSeconds(limits_.stall));
      hands.cancel(shard);
    }
    for (const int shard : due) {
      spdlog::debug("event=call_repeated peer={}", LogValue(names_[shard]));
      hands.repeat(shard);
    }
    repeated_total_ += static_cast<int64_t>(due.size());
  }
}

void CallDriver::AwaitNews(const Enough& enough, absl::Time deadline,
                           const CancelToken& cancel) {
  absl::MutexLock lock(&mu_);
  const absl::Time due = calls_.next_due();
  const absl::Time stall = calls_.next_stall();
  const auto news = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    return cancel.cancelled() || enough(calls_) || !calls_.failure().ok() ||
           calls_.next_due() != due || calls_.next_stall() < stall;
  };
  loop_.Await(&mu_, absl::Condition(&news),
              std::min({deadline, due, stall}) - clock_->Now());
}

bool CallDriver::sound() const {
  absl::MutexLock lock(&mu_);
  return calls_.failure().ok();
}

std::optional<UnreachedShard> CallDriver::unreached() const {
  absl::MutexLock lock(&mu_);
  return calls_.unreached();
}

void CallDriver::BeginsAnew(int shard) {
  absl::MutexLock lock(&mu_);
  calls_.BeginsAnew(shard);
}

std::vector<int64_t> CallDriver::progress() const {
  absl::MutexLock lock(&mu_);
  return calls_.progress();
}

std::vector<Exchange::Travel> CallDriver::travels() const {
  absl::MutexLock lock(&mu_);
  return travels_;
}

void CallDriver::Drain() {
  absl::MutexLock lock(&mu_);
  loop_.Await(&mu_, absl::Condition(&calls_, &ShardCalls::idle),
              absl::InfiniteDuration());
  calls_ = ShardCalls({}, limits_);  // Nobody waits for a shard any more.
}

void CallDriver::Wake() { loop_.Wake(&mu_); }

void CallDriver::OnAsked(int shard) {
  const absl::Time now = clock_->Now();
  absl::MutexLock lock(&mu_);
  calls_.Asked(shard, now);
}

void CallDriver::OnMoved(int shard) {
  const absl::Time now = clock_->Now();
  absl::MutexLock lock(&mu_);
  calls_.Moved(shard, now);
}

void CallDriver::OnProgress(int shard, int64_t floats) {
  const absl::Time now = clock_->Now();
  absl::MutexLock lock(&mu_);
  if (travelling_.empty()) travels_.push_back({now, now});
  travelling_.insert(shard);
  calls_.Progressed(shard, floats, now);
}

void CallDriver::OnRest(int shard) {
  const absl::Time now = clock_->Now();
  absl::MutexLock lock(&mu_);
  Arrive(shard, now);
  calls_.Rested(shard);
}

void CallDriver::Arrive(int shard, absl::Time now) {
  if (travelling_.erase(shard) > 0 && travelling_.empty()) {
    travels_.back().end = now;
  }
}

void CallDriver::OnCallEnded(int shard, const absl::Status& status) {
  const absl::Time now = clock_->Now();
  absl::MutexLock lock(&mu_);
  Arrive(shard, now);
  calls_.Ended(shard, status, now);
}

}  // namespace sluice

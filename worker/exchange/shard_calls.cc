// One call to each shard, and what follows from its end:
//
//   kRunning --Ended, OK-->                      kSucceeded
//            --Ended, RetryPolicy says when-->   kWaiting
//            --Ended, it says not again-->       kFailed
//   kWaiting --TakeDue-->                        kRunning
//
// `moved` is set only while a call is under way, so only such a one can stall.
// With a stall of 30 s:
//
//    0 s   Asked(1)
//   20 s   Progressed(1, 1000)
//   50 s   TakeStalled names 1, once; the caller cancels the call
//   50 s   Ended(1, CANCELLED) counts as UNAVAILABLE, "nothing has moved":
//          kWaiting. Ended(1, OK) would count: all came before the cancel
#include "worker/exchange/shard_calls.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/exchange_error.h"
#include "common/process/exit_codes.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

absl::Status Stalled(absl::Duration stall) {
  return absl::UnavailableError(absl::StrCat("nothing has moved for ",
                                             absl::FormatDuration(stall),
                                             " (limits.transfer_stall_s)"));
}

}  // namespace

ShardCalls::ShardCalls(std::vector<std::string> names, CallLimits limits)
    : limits_(limits) {
  for (std::string& name : names) {
    calls_.push_back(
        {.name = std::move(name), .retry = RetryPolicy(limits.partition)});
  }
}

void ShardCalls::Asked(int shard, absl::Time now) { calls_[shard].moved = now; }

void ShardCalls::Moved(int shard, absl::Time now) {
  calls_[shard].moved = now;
  calls_[shard].retry.Reached();
}

void ShardCalls::Progressed(int shard, int64_t floats, absl::Time now) {
  calls_[shard].progress = floats;
  calls_[shard].moved = now;
}

void ShardCalls::Ended(int shard, const absl::Status& end, absl::Time now) {
  Call& call = calls_[shard];
  SLUICE_CHECK(call.state == State::kRunning);
  call.moved.reset();
  // What was cancelled for its stall may have succeeded just before.
  const bool cancelled = std::exchange(call.stalled, false) && !end.ok();
  const absl::Status status = cancelled ? Stalled(limits_.stall) : end;
  call.last = status;
  if (status.ok()) {
    call.state = State::kSucceeded;
    return;
  }
  const std::optional<absl::Time> again = call.retry.AfterFailure(status, now);
  if (again.has_value()) {
    call.state = State::kWaiting;
    call.due = *again;
    return;
  }
  call.state = State::kFailed;
  if (failure_.ok()) failure_ = Described(shard, status);
}

absl::Status ShardCalls::Described(int shard,
                                   const absl::Status& status) const {
  const Call& call = calls_[shard];
  // A shard's own errors begin with its number, which need not be said twice.
  absl::string_view message = status.message();
  absl::ConsumePrefix(&message, absl::StrCat("shard ", shard, ": "));
  std::string text = absl::StrCat(call.name, ": ", message);
  const bool unreached =
      call.retry.unreachable_since() != absl::InfiniteFuture();
  if (unreached) {
    absl::StrAppend(&text, "; not heard of for ",
                    absl::FormatDuration(limits_.partition),
                    " (limits.partition_timeout_s)");
  }
  const absl::Status described =
      WithReason(ReasonOf(status), absl::Status(status.code(), text));
  return unreached ? AskForRestart(described) : described;
}

std::vector<int> ShardCalls::TakeStalled(absl::Time now) {
  std::vector<int> stalled;
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (StallOf(calls_[i]) > now) continue;
    calls_[i].stalled = true;
    stalled.push_back(static_cast<int>(i));
  }
  return stalled;
}

std::vector<int> ShardCalls::TakeDue(absl::Time now) {
  std::vector<int> due;
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i].state != State::kWaiting || calls_[i].due > now) continue;
    calls_[i].state = State::kRunning;
    calls_[i].retry.LeftAlone(now - calls_[i].due);
    due.push_back(static_cast<int>(i));
  }
  return due;
}

absl::Time ShardCalls::next_due() const {
  absl::Time next = absl::InfiniteFuture();
  for (const Call& call : calls_) {
    if (call.state == State::kWaiting) next = std::min(next, call.due);
  }
  return next;
}

absl::Time ShardCalls::next_stall() const {
  absl::Time next = absl::InfiniteFuture();
  for (const Call& call : calls_) next = std::min(next, StallOf(call));
  return next;
}

absl::Time ShardCalls::StallOf(const Call& call) const {
  const bool under_way =
      call.state == State::kRunning && call.moved.has_value() && !call.stalled;
  return under_way ? *call.moved + limits_.stall : absl::InfiniteFuture();
}

std::optional<UnreachedShard> LongerUnreached(std::optional<UnreachedShard> a,
                                              std::optional<UnreachedShard> b) {
  if (!a.has_value()) return b;
  return b.has_value() && b->since < a->since ? b : a;
}

std::optional<UnreachedShard> ShardCalls::unreached() const {
  std::optional<UnreachedShard> longest;
  for (const Call& call : calls_) {
    const absl::Time since = call.retry.unreachable_since();
    if (call.state == State::kSucceeded || since == absl::InfiniteFuture()) {
      continue;
    }
    if (longest.has_value() && longest->since <= since) continue;
    longest = {call.name, since};
  }
  return longest;
}

bool ShardCalls::succeeded() const {
  return std::all_of(calls_.begin(), calls_.end(), [](const Call& call) {
    return call.state == State::kSucceeded;
  });
}

std::vector<int64_t> ShardCalls::progress() const {
  std::vector<int64_t> progress;
  for (const Call& call : calls_) progress.push_back(call.progress);
  return progress;
}

bool ShardCalls::reached(absl::Span<const int64_t> floats) const {
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i].state != State::kSucceeded &&
        calls_[i].progress < floats[i]) {
      return false;
    }
  }
  return true;
}

bool ShardCalls::idle() const {
  return std::none_of(calls_.begin(), calls_.end(), [](const Call& call) {
    return call.state == State::kRunning;
  });
}

absl::Status ShardCalls::DescribeWait() const {
  for (const Call& call : calls_) {
    if (call.state == State::kSucceeded) continue;
    return absl::DeadlineExceededError(absl::StrCat(
        call.name, " has not answered in time",
        call.last.ok() ? "" : absl::StrCat("; before: ", call.last.message())));
  }
  return absl::OkStatus();
}

}  // namespace sluice

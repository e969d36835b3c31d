#include "worker/exchange/shard_calls.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// The status with the shard's name and address; a shard's own errors begin
// with its number, which need not be said twice.
absl::Status WithName(int shard, const std::string& name,
                      const absl::Status& status) {
  absl::string_view message = status.message();
  absl::ConsumePrefix(&message, absl::StrCat("shard ", shard, ": "));
  return absl::Status(status.code(), absl::StrCat(name, ": ", message));
}

}  // namespace

ShardCalls::ShardCalls(std::vector<std::string> names,
                       absl::Duration rejoin_timeout) {
  for (std::string& name : names) {
    calls_.push_back(
        {.name = std::move(name), .patience = Patience(rejoin_timeout)});
  }
}

void ShardCalls::Progressed(int shard, int64_t floats) {
  calls_[shard].progress = floats;
}

void ShardCalls::Ended(int shard, const absl::Status& status, absl::Time now) {
  Call& call = calls_[shard];
  SLUICE_CHECK(call.state == State::kRunning);
  call.last = status;
  if (status.ok()) {
    call.state = State::kSucceeded;
    return;
  }
  const std::optional<absl::Time> again =
      call.patience.AfterFailure(status, now);
  if (again.has_value()) {
    call.state = State::kWaiting;
    call.due = *again;
    return;
  }
  call.state = State::kFailed;
  if (failure_.ok()) failure_ = WithName(shard, call.name, status);
}

std::vector<int> ShardCalls::TakeDue(absl::Time now) {
  std::vector<int> due;
  for (size_t i = 0; i < calls_.size(); ++i) {
    if (calls_[i].state != State::kWaiting || calls_[i].due > now) continue;
    calls_[i].state = State::kRunning;
    calls_[i].progress = 0;
    due.push_back(static_cast<int>(i));
  }
  repeated_ += static_cast<int64_t>(due.size());
  return due;
}

absl::Time ShardCalls::next_due() const {
  absl::Time next = absl::InfiniteFuture();
  for (const Call& call : calls_) {
    if (call.state == State::kWaiting) next = std::min(next, call.due);
  }
  return next;
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

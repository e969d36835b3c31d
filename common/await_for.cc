// A wait is an alarm on the stack of whoever waits. The ringing thread never
// holds its own lock while it takes a waiter's, since waiters hold theirs when
// they set and take back an alarm; a waiter whose alarm is just ringing lets it
// finish before it goes on, because then its alarm goes.
#include "common/await_for.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

#include "common/clock.h"
#include "common/named_thread.h"

namespace sluice {
namespace {

struct Alarm {
  absl::Mutex* const mu;
  bool over = false;  // Of the waiter's lock.
};

class Bell {
 public:
  Bell() {
    StartThread("await-for", [this] { Ring(); }).detach();
  }

  void Set(Alarm* alarm, absl::Time at) {
    const std::lock_guard<std::mutex> lock(mu_);
    const auto set = alarms_.emplace(at, alarm);
    if (set == alarms_.begin()) changed_.notify_one();
  }

  // False: it rings now, or has rung, and `alarm` must stay until AwaitRung.
  bool TakeBack(const Alarm* alarm, absl::Time at) {
    const std::lock_guard<std::mutex> lock(mu_);
    const auto [begin, end] = alarms_.equal_range(at);
    const auto set = std::find_if(
        begin, end, [&](const auto& entry) { return entry.second == alarm; });
    if (set == end) return false;
    alarms_.erase(set);
    return true;
  }

  // REQUIRES: the waiter's lock is not held.
  void AwaitRung(const Alarm* alarm) {
    std::unique_lock<std::mutex> lock(mu_);
    rung_.wait(lock, [&] { return ringing_ != alarm; });
  }

 private:
  void Ring() {
    std::unique_lock<std::mutex> lock(mu_);
    while (true) {
      if (alarms_.empty()) {
        changed_.wait(lock);
        continue;
      }
      const absl::Duration left = alarms_.begin()->first - Clock::Real()->Now();
      if (left > absl::ZeroDuration()) {
        changed_.wait_for(
            lock, absl::ToChronoNanoseconds(std::min(left, absl::Hours(1))));
        continue;
      }
      ringing_ = alarms_.begin()->second;
      alarms_.erase(alarms_.begin());
      lock.unlock();
      ringing_->mu->Lock();
      ringing_->over = true;
      ringing_->mu->Unlock();
      lock.lock();
      ringing_ = nullptr;
      rung_.notify_all();
    }
  }

  std::mutex mu_;
  std::condition_variable changed_, rung_;
  std::multimap<absl::Time, Alarm*> alarms_;
  Alarm* ringing_ = nullptr;
};

}  // namespace

bool AwaitFor(absl::Mutex* mu, const absl::Condition& condition,
              absl::Duration timeout) {
  static Bell* const bell = new Bell;
  if (timeout <= absl::ZeroDuration() || condition.Eval()) {
    return condition.Eval();
  }
  const absl::Time at = Clock::Real()->Now() + timeout;
  if (at == absl::InfiniteFuture()) {
    mu->Await(condition);
    return true;
  }
  Alarm alarm{mu};
  const auto holds = [&] { return alarm.over || condition.Eval(); };
  bell->Set(&alarm, at);
  mu->Await(absl::Condition(&holds));
  if (!bell->TakeBack(&alarm, at)) {
    mu->Unlock();
    bell->AwaitRung(&alarm);
    mu->Lock();
  }
  return condition.Eval();
}

}  // namespace sluice

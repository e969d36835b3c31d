// A wait puts an Alarm on its own stack, sets it in the one Bell of the
// process, and waits on its mutex for "the condition holds or the alarm is
// over". The Bell's thread sleeps until the earliest alarm is due and then sets
// it over.
//
// A wait of 2 s that ends after 0.5 s, because its condition holds, takes its
// alarm back; the Bell never looks at it again. If the alarm is ringing at just
// that moment, TakeBack fails and the waiter must wait for AwaitRung, because
// the Bell still uses the alarm on its stack.
//
// Lock order: a waiter holds its own mutex when it takes the Bell's (Set,
// TakeBack). So the Bell's thread must not hold the Bell's mutex when it takes
// a waiter's, and AwaitRung is called without the waiter's mutex.
#include "common/await_for.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

#include "common/clock.h"
#include "common/process/named_thread.h"

namespace sluice {
namespace {

struct Alarm {
  absl::Mutex* const mu;
  bool over = false;  // Guarded by *mu.
};

class Bell {
 public:
  Bell() {
    StartThread("await-for", [this] { Ring(); }).detach();
  }

  void Set(Alarm* alarm, absl::Time at) {
    const std::lock_guard<std::mutex> lock(mu_);
    alarms_.emplace(at, alarm);
    if (at < wakes_) changed_.notify_one();
  }

  // False: it is ringing or has rung, and `alarm` must live until AwaitRung
  // returns.
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
        wakes_ = absl::InfiniteFuture();
        changed_.wait(lock);
        continue;
      }
      const absl::Time now = Clock::Real()->Now();
      wakes_ = std::min(alarms_.begin()->first, now + absl::Hours(1));
      if (wakes_ > now) {
        changed_.wait_for(lock, absl::ToChronoNanoseconds(wakes_ - now));
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
  // When the thread looks again without being told. A wait that ends early does
  // not tell it, so the next ones, which end later, need not either.
  absl::Time wakes_ = absl::InfiniteFuture();
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

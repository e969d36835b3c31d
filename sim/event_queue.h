#ifndef SLUICE_SIM_EVENT_QUEUE_H_
#define SLUICE_SIM_EVENT_QUEUE_H_

#include <cmath>
#include <cstdint>
#include <deque>
#include <queue>
#include <utility>
#include <vector>

#include "common/status_macros.h"

namespace sluice {

// Virtual time in nanoseconds from the start of the simulation.
using VirtualTime = int64_t;

// 146 years. What would be later is at the end, and its time means nothing.
constexpr VirtualTime kEndOfTime = VirtualTime{1} << 62;

// As virtual time, to the nearest nanosecond.
inline VirtualTime VirtualSeconds(double seconds) {
  return seconds * 1e9 < static_cast<double>(kEndOfTime)
             ? std::llround(seconds * 1e9)
             : kEndOfTime;
}
// The sum of two times from 0 to the end.
inline VirtualTime Later(VirtualTime time, VirtualTime delay) {
  return delay > kEndOfTime - time ? kEndOfTime : time + delay;
}

// Events in order of time. Events that are due at the same time are taken in
// the order in which they were added, with one exception: events added with
// delay 0 come before those that were added earlier for this moment. The order
// depends on the calls alone.
//
// Not thread-safe: call from the thread that simulates.
template <typename Event>
class EventQueue {
 public:
  VirtualTime now() const { return now_; }
  bool empty() const { return due_.empty() && later_.empty(); }

  // REQUIRES: delay >= 0.
  void Add(VirtualTime delay, Event event) {
    SLUICE_CHECK(delay >= 0);
    if (delay == 0) {
      due_.push_back(std::move(event));
    } else {
      later_.push({Later(now_, delay), added_++, std::move(event)});
    }
  }

  // Takes the next event and moves time to it. REQUIRES: !empty().
  Event Take() {
    if (due_.empty()) {
      now_ = later_.top().time;
      Event event = later_.top().event;
      later_.pop();
      return event;
    }
    Event event = std::move(due_.front());
    due_.pop_front();
    return event;
  }

 private:
  struct Waiting {
    VirtualTime time;
    int64_t number;
    Event event;
    // priority_queue puts the largest first, so the earliest must be the
    // largest.
    bool operator<(const Waiting& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  VirtualTime now_ = 0;
  int64_t added_ = 0;
  // Without a network most events are due at once, and need no heap.
  std::deque<Event> due_;
  std::priority_queue<Waiting> later_;
};

}  // namespace sluice

#endif  // SLUICE_SIM_EVENT_QUEUE_H_

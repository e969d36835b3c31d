#ifndef SLUICE_SIM_EVENT_QUEUE_H_
#define SLUICE_SIM_EVENT_QUEUE_H_

#include <cstdint>
#include <deque>
#include <queue>
#include <vector>

#include "common/status_macros.h"

namespace sluice {

// Virtual time in nanoseconds from the start of the simulation.
using VirtualTime = int64_t;

// What will happen, in order of time; what is due at the same time happens in
// the order in which it was added, except that what is due at once goes before
// what was added earlier for this moment. The order is a function of the calls
// alone.
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
      later_.push({now_ + delay, added_++, std::move(event)});
    }
  }

  // The next event; time moves on to it. REQUIRES: !empty().
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
  struct Later {
    VirtualTime time;
    int64_t number;
    Event event;
    // The first is the largest, as priority_queue wants it.
    bool operator<(const Later& other) const {
      return time != other.time ? time > other.time : number > other.number;
    }
  };

  VirtualTime now_ = 0;
  int64_t added_ = 0;
  // Most events of a cluster without a network are due at once: no heap.
  std::deque<Event> due_;
  std::priority_queue<Later> later_;
};

}  // namespace sluice

#endif  // SLUICE_SIM_EVENT_QUEUE_H_

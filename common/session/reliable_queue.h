#ifndef SLUICE_COMMON_SESSION_RELIABLE_QUEUE_H_
#define SLUICE_COMMON_SESSION_RELIABLE_QUEUE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"

namespace sluice {

// One end of a numbered message stream that outlives its connections. Sent
// messages are numbered from 1 and kept until the other end acknowledges them.
// After a reconnect everything unacknowledged is sent again, in order. A
// message that arrives twice is recognised, and one that arrives after a gap is
// refused. Together the two ends deliver every message exactly once and in
// order.
//
//   sender                              receiver
//   Push(a), Push(b), Push(c)
//   Next() = 1, 2           ------->    Receive(1) is new; 2 is lost
//           the connection breaks; the next one begins with received() = 1
//   Reconnect(), Acknowledge(1)
//   Next() = 2, 3           ------->    Receive(2), Receive(3) are new
//
// `Message` is a protobuf message with a field `sequence`.
//
// Not thread-safe: call under the owner's lock.
template <typename Message>
class ReliableQueue {
 public:
  // At most `capacity` messages are kept. REQUIRES: capacity >= 1.
  explicit ReliableQueue(size_t capacity) : capacity_(capacity) {}

  // Numbers `message` and queues it. kResourceExhausted: the other end has left
  // too many messages unacknowledged, and the session cannot go on.
  absl::Status Push(Message message) {
    if (kept_.size() >= capacity_) {
      return absl::ResourceExhaustedError(
          absl::StrCat(kept_.size(), " messages are unacknowledged, at most ",
                       capacity_, " are kept"));
    }
    message.set_sequence(acknowledged_ + kept_.size() + 1);
    kept_.push_back(std::move(message));
    return absl::OkStatus();
  }

  // Whether Next() has a message.
  bool HasNext() const { return sent_ < kept_.size(); }
  // The next message for the current connection. It counts as sent from now on.
  // REQUIRES: HasNext().
  Message Next() { return kept_[sent_++]; }

  // Begins a new connection: everything unacknowledged is sent again.
  void Reconnect() { sent_ = 0; }

  // The other end has received every message up to `number`. A smaller number
  // than before is ignored. kInvalidArgument: no such message was sent.
  absl::Status Acknowledge(uint64_t number) {
    if (number > last()) {
      return absl::InvalidArgumentError(
          absl::StrCat("message ", number,
                       " is acknowledged, the last one sent is ", last()));
    }
    while (acknowledged_ < number) {
      kept_.pop_front();
      ++acknowledged_;
      if (sent_ > 0) --sent_;
    }
    return absl::OkStatus();
  }

  // Records the arrival of message `number`. Returns whether it is new.
  // kInvalidArgument: a message before it is missing.
  absl::StatusOr<bool> Receive(uint64_t number) {
    if (number <= received_) return false;
    if (number != received_ + 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "message ", received_ + 1, " is expected, ", number, " came"));
    }
    received_ = number;
    return true;
  }

  // The highest number received without a gap, to be acknowledged.
  uint64_t received() const { return received_; }
  // The number of the last queued message, and how many are unacknowledged.
  uint64_t last() const { return acknowledged_ + kept_.size(); }
  size_t unacknowledged() const { return kept_.size(); }

 private:
  // Constant after construction, except for moves.
  size_t capacity_;

  // Outgoing: the messages from acknowledged_ + 1 on. The first `sent_` of them
  // have been written to the current connection.
  std::deque<Message> kept_;
  uint64_t acknowledged_ = 0;
  size_t sent_ = 0;

  // Incoming.
  uint64_t received_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_SESSION_RELIABLE_QUEUE_H_

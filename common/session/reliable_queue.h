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

// The numbering of one end of a session that outlives its connections. What
// is sent is numbered from 1 and kept until the other end acknowledges it;
// after a reconnect everything unacknowledged is sent again, in order. What
// arrives twice is recognised; what arrives with a gap before it is refused.
// Together the two ends deliver every message exactly once and in order.
//
// `Message` is a protobuf message with a field `sequence`.
//
// Not thread-safe: call under the owner's lock.
template <typename Message>
class ReliableQueue {
 public:
  // At most `capacity` messages are kept. REQUIRES: capacity >= 1.
  explicit ReliableQueue(size_t capacity) : capacity_(capacity) {}

  // Numbers `message` and queues it. kResourceExhausted: the other end has
  // left too many unacknowledged; the session cannot go on.
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
  // The next message for this connection; it counts as sent from now on.
  // REQUIRES: HasNext().
  Message Next() { return kept_[sent_++]; }

  // The connection is new: all that is unacknowledged is sent again.
  void Reconnect() { sent_ = 0; }

  // The other end has received every message up to `number`. A number below
  // an earlier one is old news. kInvalidArgument: there is no such message.
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

  // Message `number` has arrived: true when it is new, false when it is a
  // repetition. kInvalidArgument: the ones before it are missing.
  absl::StatusOr<bool> Receive(uint64_t number) {
    if (number <= received_) return false;
    if (number != received_ + 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "message ", received_ + 1, " is expected, ", number, " came"));
    }
    received_ = number;
    return true;
  }

  // Highest number received without a gap: what to acknowledge.
  uint64_t received() const { return received_; }
  // Number of the last message queued, and how many are unacknowledged.
  uint64_t last() const { return acknowledged_ + kept_.size(); }
  size_t unacknowledged() const { return kept_.size(); }

 private:
  // Constant after construction, but for moves.
  size_t capacity_;

  // Outgoing: messages acknowledged_ + 1 and on, of which the first `sent_`
  // have been given to the present connection.
  std::deque<Message> kept_;
  uint64_t acknowledged_ = 0;
  size_t sent_ = 0;

  // Incoming.
  uint64_t received_ = 0;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_SESSION_RELIABLE_QUEUE_H_

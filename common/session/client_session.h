#ifndef SLUICE_COMMON_SESSION_CLIENT_SESSION_H_
#define SLUICE_COMMON_SESSION_CLIENT_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/session/reliable_queue.h"
#include "proto/coordinator.pb.h"

namespace sluice {

// Whether a session ended because a coordinator that had been there fell
// silent: it may come back, and with it the run.
bool IsCoordinatorLost(const absl::Status& status);

// What one process knows of its session with the coordinator, and what it
// makes of each frame and of each connection's end. CoordinatorClient puts
// threads and connections around it.
//
// Not thread-safe: call under the owner's lock.
class ClientSession {
 public:
  struct Options {
    std::string address;  // Of the coordinator, for messages.
    proto::Join join;     // `incarnation` is filled in.
    // As CoordinatorClient's.
    absl::Duration start_timeout;
    absl::Duration rejoin_timeout;
    bool rejoins = false;
  };
  ClientSession(Options options, absl::Time now);

  // ---- One connection after the other. ----

  // The first frame of a connection; what else is to be written waits for
  // kWelcome.
  proto::ToCoordinator Join();

  enum class Event {
    kNothing,  // An acknowledgement, a heartbeat, a repetition.
    kMessage,  // A new numbered message: hand it on.
    kWelcome,  // The connection is open, or open still: frames may be written.
  };
  // A frame has arrived. After an error the connection must be cut; the
  // session ends with it.
  absl::StatusOr<Event> OnFrame(const proto::FromCoordinator& frame,
                                absl::Time now);
  // The message Finish has been handed on.
  void OnFinished(const proto::Finish& finish);

  // The connection has ended with `status` (OK: closed by the coordinator;
  // kCancelled: cut by this process). Empty: try again after Backoff(). Else
  // the session has ended: OK after Finish or a Leave; kUnavailable from
  // Deadline() on; the error that OnFrame or Send gave; or `status`, where
  // trying again cannot help: kAborted says so once welcomed(). A process that
  // lives on joins with another session.
  std::optional<absl::Status> OnConnectionEnd(const absl::Status& status,
                                              absl::Time now);
  // Pause before the next connection; doubles with each try up to 1 s, and is
  // short again after a Welcome.
  absl::Duration Backoff();
  // When the coordinator will have been silent for too long: the session ends
  // with its connection then.
  absl::Time Deadline() const;
  // When the connection is to be cut, at the latest then. Earlier it is once
  // the coordinator has left as many heartbeats in a row unanswered as a lease
  // has: after a cut link heals, a new connection is there at once, while the
  // old one would wait for a repetition that comes as late as the link was cut
  // for.
  absl::Time CutAt() const;
  // Call at least every kAwakeEvery. A longer gap means that this process was
  // stopped or starved: the coordinator is not blamed for that silence.
  static constexpr absl::Duration kAwakeEvery = absl::Seconds(1);
  void Awake(absl::Time now);
  // This process has been told to end: it waits for the coordinator's word, but
  // for one that is silent no longer than a lease.
  void Hurry() { hurries_ = true; }

  // ---- What is to be written. ----

  // Queues a message, at any time.
  // kResourceExhausted: the coordinator acknowledges nothing; cut the
  // connection, the session ends with it.
  absl::Status Send(proto::ToCoordinator message);
  // Queues a good-bye; the session ends with the connection.
  void Leave(const std::string& reason);
  // Heartbeats say from now on that this process cannot reach `whom` since
  // `since`; empty: that it reaches all. One says so at once where that is new:
  // a process that has other things to say may not send any for long.
  void CannotReach(const std::string& whom, absl::Time since) {
    reach_due_ |= whom != cannot_reach_;
    cannot_reach_ = whom;
    cut_off_since_ = since;
  }
  // Messages that the coordinator has not acknowledged.
  size_t unacknowledged() const { return queue_.unacknowledged(); }
  // Whether a frame should be written at once, and when a heartbeat is due
  // (for ever away while no connection is open).
  bool HasUrgentFrame() const {
    return queue_.HasNext() || ack_due_ || reach_due_;
  }
  absl::Time next_heartbeat() const { return next_heartbeat_; }
  // The frame to write now, if any. REQUIRES: the connection is open.
  std::optional<proto::ToCoordinator> NextFrame(absl::Time now);

  // ---- How it stands. ----

  bool contacted() const { return contacted_; }  // Some Welcome came.
  // A complete one came; for all but shards, one with the shards' addresses.
  bool welcomed() const { return welcomed_; }
  const proto::Welcome& welcome() const { return welcome_; }
  const std::optional<proto::Finish>& finish() const { return finish_; }
  // Tries since the last Welcome.
  int failures() const { return failures_; }

 private:
  using Queue = ReliableQueue<proto::ToCoordinator>;

  std::string Name() const;
  // Remembers why the session cannot go on.
  absl::Status Refuse(const absl::Status& status);
  absl::StatusOr<Event> OnWelcome(const proto::FromCoordinator& frame);
  absl::Status Silent(absl::Time now) const;
  absl::Duration HeartbeatEvery() const;
  // `timeout`, unless it is in a hurry.
  absl::Duration Patience(absl::Duration timeout) const;

  // Constant after construction.
  const Options options_;
  const absl::Time start_;

  Queue queue_;
  bool ack_due_ = false;
  absl::Time next_heartbeat_;
  absl::Time last_heard_;
  absl::Time last_connected_;  // When the present connection was begun.
  absl::Time last_awake_;
  std::string last_error_ = "none";  // Of a connection, but for our own cuts.
  int failures_ = 0;
  bool open_ = false;  // This connection has been welcomed.
  // This life: 0 until the coordinator gave it a number.
  int64_t incarnation_ = 0;
  proto::Welcome welcome_;
  bool contacted_ = false;
  bool welcomed_ = false;
  std::optional<proto::Finish> finish_;
  bool leaving_ = false;
  bool hurries_ = false;
  absl::Status refusal_;
  bool reach_due_ = false;
  std::string cannot_reach_;
  absl::Time cut_off_since_;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_SESSION_CLIENT_SESSION_H_

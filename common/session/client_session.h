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

inline constexpr int kSessionSecretBytes = 16;

// The state of one process's session with the coordinator: it decides what
// follows from each frame and from the end of each connection.
// CoordinatorClient adds the threads and connections.
//
// Not thread-safe: call under the owner's lock.
class ClientSession {
 public:
  struct Options {
    std::string address;  // The coordinator's, for messages.
    // `incarnation` and `session_secret` are filled in by the session.
    proto::Join join;
    std::string secret;  // Of this session alone: kSessionSecretBytes, drawn.
    // As in CoordinatorClient.
    absl::Duration start_timeout;
    absl::Duration rejoin_timeout;
    bool rejoins = false;
  };
  ClientSession(Options options, absl::Time now);

  // ---- One connection after the other. ----

  // The first frame of a connection. Other frames must wait for kWelcome.
  proto::ToCoordinator Join();

  enum class Event {
    kNothing,  // An acknowledgement, a heartbeat, or a repeated message.
    kMessage,  // A new numbered message, to be handed on.
    kWelcome,  // The connection is open: frames may be written.
  };
  // Handles a frame that has arrived. After an error the connection must be
  // cut, and the session ends with it.
  absl::StatusOr<Event> OnFrame(const proto::FromCoordinator& frame,
                                absl::Time now);
  // Call after the message Finish has been handed on.
  void OnFinished(const proto::Finish& finish);

  // Handles the end of a connection. `status` is OK if the coordinator closed
  // it, and kCancelled if this process cut it. Returns nothing if the session
  // goes on: connect again after Backoff(). Otherwise the session has ended,
  // with
  //   OK             after a Finish or a Leave;
  //   kUnavailable   from Deadline() on;
  //   kAborted       after welcomed(): this process must join with a new one;
  //   other errors   those of OnFrame or Send, or `status` itself if trying
  //                  again cannot help.
  std::optional<absl::Status> OnConnectionEnd(const absl::Status& status,
                                              absl::Time now);
  // Pause before the next connection. It doubles with each attempt up to 1 s,
  // and starts over after a Welcome.
  absl::Duration Backoff();
  // When the coordinator has been silent for too long and the session ends.
  absl::Time Deadline() const;
  // When the connection must be cut: once the coordinator has left as many
  // heartbeats in a row unanswered as fit into a lease, and at Deadline() at
  // the latest. After a cut link heals, a new connection works at once, while
  // the old one waits for a TCP retransmission, which comes as late again as
  // the link was cut for.
  absl::Time CutAt() const;
  // Call at least every kAwakeEvery. A longer gap means that this process was
  // stopped or starved; the silence of that time is not held against the
  // coordinator.
  static constexpr absl::Duration kAwakeEvery = absl::Seconds(1);
  void Awake(absl::Time now);
  // This process has been told to end. From now on it waits for a silent
  // coordinator no longer than a lease.
  void Hurry() { hurries_ = true; }

  // ---- What is to be written. ----

  // Queues a message; allowed at any time. kResourceExhausted: the coordinator
  // does not acknowledge. Cut the connection; the session ends with it.
  absl::Status Send(proto::ToCoordinator message);
  // Queues a good-bye. The session ends with the connection. `for_good`: the
  // process is not to be started again.
  void Leave(const std::string& reason, bool for_good = false);
  // From now on heartbeats say that this process has not reached `whom` since
  // `since`; empty: that it reaches all peers. If that is news, a heartbeat is
  // sent at once.
  void CannotReach(const std::string& whom, absl::Time since) {
    reach_due_ |= whom != cannot_reach_;
    cannot_reach_ = whom;
    cut_off_since_ = since;
  }
  // Messages that the coordinator has not acknowledged.
  size_t unacknowledged() const { return queue_.unacknowledged(); }
  // Whether a frame should be written at once, and when the next heartbeat is
  // due (InfiniteFuture while no connection is open).
  bool HasUrgentFrame() const {
    return queue_.HasNext() || ack_due_ || reach_due_;
  }
  absl::Time next_heartbeat() const { return next_heartbeat_; }
  // The frame to write now, if any. REQUIRES: the connection is open.
  std::optional<proto::ToCoordinator> NextFrame(absl::Time now);

  // ---- How it stands. ----

  bool contacted() const { return contacted_; }  // A Welcome has come.
  // How the last connection ended; "none": there has been none.
  const std::string& last_error() const { return last_error_; }
  // A complete Welcome has come. For peers other than shards, complete means
  // that it names the shards' addresses, and for those whose Join names their
  // instruction set also the run's.
  bool welcomed() const { return welcomed_; }
  const proto::Welcome& welcome() const { return welcome_; }
  const std::optional<proto::Finish>& finish() const { return finish_; }
  // Attempts since the last Welcome.
  int failures() const { return failures_; }

 private:
  using Queue = ReliableQueue<proto::ToCoordinator>;

  std::string Name() const;
  // Records the reason why the session cannot go on.
  absl::Status Refuse(const absl::Status& status);
  absl::StatusOr<Event> OnWelcome(const proto::FromCoordinator& frame);
  absl::Status Silent(absl::Time now) const;
  absl::Duration HeartbeatEvery() const;
  // `timeout`, or a lease if that is shorter and Hurry was called.
  absl::Duration Patience(absl::Duration timeout) const;

  // Constant after construction.
  const Options options_;
  const absl::Time start_;

  Queue queue_;
  bool ack_due_ = false;
  absl::Time next_heartbeat_;
  absl::Time last_heard_;
  absl::Time last_connected_;  // When the current connection began.
  absl::Time last_awake_;
  // Of the last connection that this process did not cut itself.
  std::string last_error_ = "none";
  int failures_ = 0;
  bool open_ = false;  // The current connection has been welcomed.
  // The number of this life; 0 until the coordinator has given one.
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

#ifndef SLUICE_COMMON_SESSION_COORDINATOR_CLIENT_H_
#define SLUICE_COMMON_SESSION_COORDINATOR_CLIENT_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "proto/coordinator.pb.h"

namespace sluice {

// A process's session with the coordinator: used by workers, shards and the
// evaluator. Joins, keeps its lease by heartbeats, and survives broken
// connections: every message arrives exactly once and in order while both
// processes live.
//
// Has its own connection and two own threads, so that bulk data never delays
// it. Thread-safe.
class CoordinatorClient {
 public:
  struct Options {
    std::string address;  // "host:port" of the coordinator.
    // Who joins. `incarnation` is filled in, the rest is not.
    proto::Join join;
    // How long the coordinator may be silent before the first Welcome, and
    // after it (limits.start_timeout_s, limits.rejoin_timeout_s).
    absl::Duration start_timeout = absl::Seconds(300);
    absl::Duration rejoin_timeout = absl::Seconds(5);
    // This process has taken part before: rejoin_timeout bounds the wait for
    // the first Welcome, too.
    bool rejoins = false;
    // Called with every numbered message, once each and in order, on the
    // reader thread: must not block; may Send. Comes between the call of
    // Connect and the destructor's return. REQUIRES: not empty.
    std::function<void(const proto::FromCoordinator&)> on_message;
    // Whether this process has been told to end: then it waits for a silent
    // coordinator no longer than a lease. Asked every second on an own thread;
    // must not block. Empty: it has not.
    std::function<bool()> told_to_end;
    Clock* clock = Clock::Real();  // Outlives the client.
  };

  // Joins. Blocks until the coordinator's Welcome has come (for a worker and
  // an evaluator: until all shards have joined, so that it names their
  // addresses), trying again and saying every 2 s whom it waits for. Where the
  // run is over, it returns once the Finish has been handed on and the session
  // has ended with it. Errors:
  //   kUnavailable         no coordinator at the address for start_timeout, or
  //                        it fell silent for rejoin_timeout; once it is there,
  //                        it alone judges who is late
  //   kFailedPrecondition, kAlreadyExists, kInvalidArgument, kUnimplemented
  //                        the coordinator's refusal, in its words; a server of
  //                        another kind
  static absl::StatusOr<std::unique_ptr<CoordinatorClient>> Connect(
      Options options);

  // Ends the session without a word, if it has not ended: the coordinator
  // takes the process for dead after the lease. Not from a callback.
  ~CoordinatorClient();

  proto::Welcome welcome() const;

  // Queues a message, of which only the body counts, and writes it unless so
  // many are unacknowledged that writing might have to wait. Never blocks on
  // the network. After the end of the session it does nothing.
  void Send(proto::ToCoordinator message);

  // Whom this process cannot reach, for the coordinator's status: heartbeats
  // say what `unreached` says, which is asked about once a second, on a thread
  // of the client's, until its destructor has returned. Call at most once.
  struct Unreached {
    std::string whom;  // "shard 1 at host:port"
    absl::Time since;
  };
  void TellUnreached(std::function<std::optional<Unreached>()> unreached);

  // Blocks until the session has ended. OK: after Finish, whose on_message
  // has returned, or after Leave. Else why it was lost for good:
  // kUnavailable names the coordinator's address and how long it was silent;
  // kAborted: this process was taken for dead, or its generation is over; the
  // others as Connect's. Not from a callback.
  absl::Status Wait();

  // Says good-bye and ends the session: waits until the coordinator has heard
  // it, 1 s at most. Not from a callback.
  void Leave(absl::string_view reason);

 private:
  class Impl;
  explicit CoordinatorClient(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_SESSION_COORDINATOR_CLIENT_H_

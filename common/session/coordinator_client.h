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
#include "common/telemetry/counter_table.h"
#include "proto/coordinator.pb.h"

namespace grpc {
class ChannelCredentials;
}  // namespace grpc

namespace sluice {

// A process's session with the coordinator, for workers, shards and the
// evaluator. It joins, keeps the lease by heartbeats, and survives broken
// connections: while both processes live, every message arrives exactly once
// and in order.
//
// It has its own connection and two threads, so that bulk data never delays it.
// Thread-safe.
class CoordinatorClient {
 public:
  struct Options {
    std::string address;  // "host:port" of the coordinator.
    // How it is connected to; null: in plain text.
    std::shared_ptr<grpc::ChannelCredentials> credentials = nullptr;
    // The joining process. `incarnation` and `session_secret` are filled in by
    // the client, the rest is not.
    proto::Join join;
    // How long the coordinator may be silent before the first Welcome, and
    // after it (limits.start_timeout_s, limits.rejoin_timeout_s).
    absl::Duration start_timeout = absl::Seconds(300);
    absl::Duration rejoin_timeout = absl::Seconds(5);
    // This process has taken part before, so rejoin_timeout also bounds the
    // wait for the first Welcome.
    bool rejoins = false;
    // Called with every numbered message, once each and in order, on the reader
    // thread, from the call of Connect until the destructor returns. Must not
    // block; may call Send. REQUIRES: not empty.
    std::function<void(const proto::FromCoordinator&)> on_message;
    // Whether this process has been told to end. It then waits for a silent
    // coordinator no longer than a lease. Called every second on another
    // thread; must not block. Empty: never told to end.
    std::function<bool()> told_to_end;
    Clock* clock = Clock::Real();  // Outlives the client.
  };

  // Joins. Blocks until the coordinator's Welcome has come, for a worker and an
  // evaluator until all shards have joined (the Welcome then has their
  // addresses), and where the Join names an instruction set until all who
  // compute have. Logs every 2 s what it waits for. If the run is over, it
  // returns once the Finish has been handed on and the session has ended.
  // Errors:
  //   kUnavailable         no coordinator at the address for start_timeout, or
  //                        it fell silent for rejoin_timeout; once there is
  //                        contact, only the coordinator decides who is late
  //   kFailedPrecondition, kAlreadyExists, kInvalidArgument, kUnimplemented
  //                        the coordinator's refusal, in its words; or a server
  //                        of another kind
  static absl::StatusOr<std::unique_ptr<CoordinatorClient>> Connect(
      Options options);

  // Ends the session without a word, if it has not ended. The coordinator then
  // takes the process for dead after the lease. Must not be called from a
  // callback.
  ~CoordinatorClient();

  proto::Welcome welcome() const;

  // Queues a message, of which only the body counts. Also writes it, unless so
  // many messages are unacknowledged that writing might block. Never blocks on
  // the network. Does nothing after the end of the session.
  void Send(proto::ToCoordinator message);

  // Reports a peer that this process cannot reach, for the coordinator's
  // status. `unreached` is called once a second on the client's thread until
  // the client's destructor returns, and heartbeats carry its result. Call at
  // most once.
  struct Unreached {
    std::string whom;  // "shard 1 at host:port"
    absl::Time since;
  };
  void TellUnreached(std::function<std::optional<Unreached>()> unreached);

  // From now on heartbeats carry what this process has counted. `counters` is
  // called for each of them, on whichever thread writes it, until the client's
  // destructor returns; it must not block. Call at most once.
  void TellCounters(std::function<CounterMap()> counters);

  // Blocks until the session has ended. OK: after Finish (its on_message has
  // returned) or Leave. Otherwise the reason why it is lost for good.
  // kUnavailable names the coordinator's address and the length of its silence.
  // kAborted: this process was taken for dead, or its generation is over. Other
  // errors are those of Connect. Must not be called from a callback.
  absl::Status Wait();

  // Says good-bye and ends the session. Waits at most 1 s until the coordinator
  // has heard it. `for_good` as ClientSession's. Must not be called from a
  // callback.
  void Leave(absl::string_view reason, bool for_good = false);

 private:
  class Impl;
  explicit CoordinatorClient(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_SESSION_COORDINATOR_CLIENT_H_

#ifndef SLUICE_PS_SERVER_COORDINATOR_SESSION_SESSION_TABLE_H_
#define SLUICE_PS_SERVER_COORDINATOR_SESSION_SESSION_TABLE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "common/ids.h"
#include "common/session/reliable_queue.h"
#include "proto/coordinator.pb.h"
#include "ps_server/coordinator/session/frame_sink.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// The sessions of a run: for each peer the messages it has not acknowledged
// and the connection on which they go out, if there is one.
//
// What is sent to a shard before its first Join waits for it; what is sent to
// anybody else who is not there is left out. Seats live as long as the table.
//
// Frames are only queued on the connections; TakeTouched says which are to be
// flushed, once the lock has been released.
//
// Not thread-safe: call under the owner's lock.
class SessionTable {
 public:
  using Queue = ReliableQueue<proto::FromCoordinator>;
  struct Seat {
    explicit Seat(Peer peer);

    const Peer peer;
    Incarnation incarnation;  // 0: nobody has joined yet.
    Queue queue;
    std::shared_ptr<FrameSink> stream;  // Null while disconnected.
    std::string address;                // Of a shard.
    std::string process;                // Host and process id.
    std::string secret;                 // Of the session (Join).
    std::string holder;                 // FrameSink::holder of `stream`.
    // The peer has left, is dead, or has been told of the end of the run.
    bool over = false;
    bool finishing = false;  // Finish has been queued.
  };

  explicit SessionTable(int shards);

  // The seat on whose present connection `stream` is, or null.
  Seat* Find(const FrameSink* stream);
  // The seat of a peer that has joined before, or null.
  Seat* Find(Peer peer);
  // The seat of the worker whose session has this secret and is not over, or
  // null.
  Seat* FindWorker(const std::string& secret);

  // Who asks for `incarnation`, 0 for a new life, has received the messages up
  // to `ack`. kInvalidArgument: they were not sent to it.
  absl::Status Acknowledge(Peer peer, Incarnation incarnation, uint64_t ack);
  // Seats `peer` on a new connection, on which `welcome` goes out first and
  // then, when it resumes, what it has not acknowledged. An older connection of
  // the peer is ended.
  void Open(Peer peer, Incarnation incarnation, bool resumed,
            const proto::Join& join, std::shared_ptr<FrameSink> stream,
            proto::FromCoordinator welcome);

  // Sends a numbered message, to a worker only if it still lives under
  // `incarnation`.
  void SendToWorker(WorkerId worker, Incarnation incarnation,
                    proto::FromCoordinator message);
  void SendToShards(const proto::FromCoordinator& message);
  void SendToEvaluator(proto::FromCoordinator message);
  // To everybody who has joined, is not over and has not been sent it.
  void SendFinish(const proto::FromCoordinator& finish);
  // Ends everybody's session with `status`.
  void EndAll(const absl::Status& status);
  // Sends an unnumbered frame on the present connection, if any.
  void SendUnnumbered(Seat& seat, proto::FromCoordinator frame);

  // The connection is gone.
  void Close(Seat& seat);
  // The peer's incarnation is over: ends its connection with `status`.
  void End(Seat& seat, const absl::Status& status);

  // Of all shards, in order; empty until every one of them is here.
  std::vector<std::string> ShardAddresses() const;
  // Everybody who is not a shard and has a connection.
  std::vector<Seat*> ConnectedClients();
  // The shards whose connection is local and open.
  std::vector<const Seat*> LocalSeats() const;
  // Nobody is left who ought to hear of the end of the run.
  bool EverybodyTold() const;

  // The connections to flush, each once, since the last call, in the order in
  // which something came for them.
  std::vector<std::shared_ptr<FrameSink>> TakeTouched();
  // The peers, since the last call, that left so much unacknowledged that a
  // message to them was lost: their session has been ended.
  std::vector<Seat*> TakeOverflowed();

 private:
  void Send(Seat& seat, proto::FromCoordinator message);
  // Moves what the seat's queue has to send onto its connection.
  void Drain(Seat& seat);
  void Touch(const std::shared_ptr<FrameSink>& stream);

  std::map<Peer, Seat> seats_;
  absl::flat_hash_map<const FrameSink*, Seat*> by_stream_;
  std::vector<std::shared_ptr<FrameSink>> touched_;
  absl::flat_hash_set<const FrameSink*> in_touched_;
  std::vector<Seat*> overflowed_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_SESSION_SESSION_TABLE_H_

// A seat is of a peer, a queue of one of its incarnations, a stream of one of
// its connections. Messages are numbered in the seat's queue, so a new
// connection of the same incarnation goes on where the last one broke off, and
// what was sent is sent again. by_stream_ has the present connection of each
// seat and no other: frames that are still on their way on an older one find
// nobody.
//
//   Open(worker 0, incarnation 1)     Welcome
//   SendToWorker: task 1, task 2      numbered 1 and 2
//   the connection breaks (Close)     both stay in the queue
//   SendToWorker: cancel 1            3
//   Acknowledge(1), Open(resumed)     Welcome, then 2 and 3
//   Open(incarnation 2)               a new queue: what was for incarnation 1
//                                     is not for this one
#include "ps_server/coordinator/session/session_table.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/secret.h"

namespace sluice {
namespace {

// What one peer may leave unacknowledged: a shard that is stopped is owed at
// most commit_window commits and one Discard per staged gradient, everybody
// else a handful. More means that it reads but never acknowledges.
constexpr size_t kQueueCapacity = 65536;

}  // namespace

SessionTable::Seat::Seat(Peer peer) : peer(peer), queue(kQueueCapacity) {}

SessionTable::SessionTable(int shards) {
  for (int i = 0; i < shards; ++i) {
    const Peer peer{Role::kShard, i};
    seats_.emplace(peer, peer);
  }
}

SessionTable::Seat* SessionTable::Find(const FrameSink* stream) {
  const auto found = by_stream_.find(stream);
  return found == by_stream_.end() ? nullptr : found->second;
}

SessionTable::Seat* SessionTable::Find(Peer peer) {
  const auto found = seats_.find(peer);
  if (found == seats_.end()) return nullptr;
  return found->second.incarnation == Incarnation() ? nullptr : &found->second;
}

SessionTable::Seat* SessionTable::FindWorker(const std::string& secret) {
  for (auto& [peer, seat] : seats_) {
    if (peer.role == Role::kWorker && !seat.over &&
        seat.incarnation != Incarnation() && SameSecret(seat.secret, secret)) {
      return &seat;
    }
  }
  return nullptr;
}

absl::Status SessionTable::Acknowledge(Peer peer, Incarnation incarnation,
                                       uint64_t ack) {
  // A new life has a new queue.
  if (incarnation == Incarnation()) return Queue(1).Acknowledge(ack);
  Seat* seat = Find(peer);
  if (seat == nullptr || seat->incarnation != incarnation) {
    return absl::OkStatus();  // It will not be resumed.
  }
  return seat->queue.Acknowledge(ack);
}

void SessionTable::Open(Peer peer, Incarnation incarnation, bool resumed,
                        const proto::Join& join,
                        std::shared_ptr<FrameSink> stream,
                        proto::FromCoordinator welcome) {
  Seat& seat = seats_.emplace(peer, peer).first->second;
  if (seat.stream != nullptr) {
    End(seat, absl::UnavailableError("a newer connection has taken over"));
  }
  if (!resumed && seat.incarnation != Incarnation()) {
    seat.queue = Queue(kQueueCapacity);
    seat.finishing = false;
  }
  seat.incarnation = incarnation;
  seat.address = join.address();
  seat.process = join.process();
  seat.secret = join.session_secret();
  seat.over = false;
  seat.holder = stream->holder();
  seat.stream = std::move(stream);
  by_stream_[seat.stream.get()] = &seat;
  seat.queue.Reconnect();
  SendUnnumbered(seat, std::move(welcome));
  Drain(seat);
}

void SessionTable::Send(Seat& seat, proto::FromCoordinator message) {
  if (seat.over) return;
  if (seat.queue.Push(std::move(message)).ok()) return Drain(seat);
  End(seat, absl::ResourceExhaustedError(absl::StrCat(
                "more than ", kQueueCapacity, " messages unacknowledged")));
  overflowed_.push_back(&seat);
}

void SessionTable::Drain(Seat& seat) {
  if (seat.stream == nullptr) return;
  while (seat.queue.HasNext()) {
    proto::FromCoordinator frame = seat.queue.Next();
    frame.set_ack(seat.queue.received());
    seat.stream->Queue(std::move(frame));
  }
  Touch(seat.stream);
}

void SessionTable::SendToWorker(WorkerId worker, Incarnation incarnation,
                                proto::FromCoordinator message) {
  Seat* seat = Find(Peer{Role::kWorker, worker.value()});
  if (seat == nullptr || seat->incarnation != incarnation) return;
  Send(*seat, std::move(message));
}

void SessionTable::SendToShards(const proto::FromCoordinator& message) {
  for (auto& [peer, seat] : seats_) {
    if (peer.role == Role::kShard) Send(seat, message);
  }
}

void SessionTable::SendToEvaluator(proto::FromCoordinator message) {
  for (auto& [peer, seat] : seats_) {
    if (peer.role == Role::kEvaluator) Send(seat, message);
  }
}

void SessionTable::SendFinish(const proto::FromCoordinator& finish) {
  for (auto& [peer, seat] : seats_) {
    if (seat.incarnation == Incarnation() || seat.over) continue;
    if (std::exchange(seat.finishing, true)) continue;
    Send(seat, finish);
  }
}

void SessionTable::EndAll(const absl::Status& status) {
  for (auto& [peer, seat] : seats_) End(seat, status);
}

void SessionTable::SendUnnumbered(Seat& seat, proto::FromCoordinator frame) {
  if (seat.stream == nullptr) return;
  frame.set_ack(seat.queue.received());
  seat.stream->Queue(std::move(frame));
  Touch(seat.stream);
}

void SessionTable::Close(Seat& seat) {
  if (seat.stream == nullptr) return;
  by_stream_.erase(seat.stream.get());
  seat.stream = nullptr;
}

void SessionTable::End(Seat& seat, const absl::Status& status) {
  if (seat.stream != nullptr) {
    seat.stream->End(status);
    Touch(seat.stream);
  }
  seat.over = true;
  Close(seat);
}

std::vector<std::string> SessionTable::ShardAddresses() const {
  std::vector<std::string> addresses;
  for (const auto& [peer, seat] : seats_) {
    if (peer.role != Role::kShard) continue;
    if (seat.incarnation == Incarnation() || seat.over) return {};
    addresses.push_back(seat.address);
  }
  return addresses;
}

std::vector<SessionTable::Seat*> SessionTable::ConnectedClients() {
  std::vector<Seat*> seats;
  for (auto& [peer, seat] : seats_) {
    if (peer.role != Role::kShard && seat.stream != nullptr) {
      seats.push_back(&seat);
    }
  }
  return seats;
}

std::vector<const SessionTable::Seat*> SessionTable::LocalSeats() const {
  std::vector<const Seat*> seats;
  for (auto it = seats_.lower_bound(Peer{Role::kShard, 0});
       it != seats_.end() && it->first.role == Role::kShard; ++it) {
    const Seat& seat = it->second;
    if (seat.stream == nullptr || !seat.stream->local()) continue;
    if (!seat.stream->ending()) seats.push_back(&seat);
  }
  return seats;
}

bool SessionTable::EverybodyTold() const {
  for (const auto& [peer, seat] : seats_) {
    if (seat.incarnation != Incarnation() && !seat.over) return false;
  }
  return true;
}

void SessionTable::Touch(const std::shared_ptr<FrameSink>& stream) {
  if (in_touched_.insert(stream.get()).second) touched_.push_back(stream);
}

std::vector<std::shared_ptr<FrameSink>> SessionTable::TakeTouched() {
  in_touched_.clear();
  return std::exchange(touched_, {});
}

std::vector<SessionTable::Seat*> SessionTable::TakeOverflowed() {
  return std::exchange(overflowed_, {});
}

}  // namespace sluice

// Between the frames of each session and the core's events. What holds:
//
//  - A message reaches the core at most once: Receive says whether its number
//    is new. A repeat, after a reconnect, only renews the lease.
//  - What a peer says of an incarnation that is over ends its connection, and
//    changes nothing (Heard comes before Dispatch).
//  - Who joins before the last shard has is sent a second Welcome, with all the
//    addresses, when it does: nobody polls. Likewise when it is agreed which
//    instructions the run computes with, and that is in the commit log.
//
// A worker's process dies and is started again before the lease ends:
//
//   OnBroken               the core: suspect
//   Join, incarnation 0    a new life: incarnation 2, task of 1 goes back
//   -- or, when only its connection had broken --
//   Join, incarnation 1    resumed; its task goes on, and messages that it has
//                          not acknowledged are sent again
#include "ps_server/coordinator/session/coordinator_sessions.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <variant>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/job/group.h"
#include "common/key_proto.h"
#include "common/secret.h"
#include "common/status_macros.h"
#include "common/telemetry/counter_table.h"
#include "ps_server/decisions/event_conversion.h"

namespace sluice {
namespace {

// Heartbeats per lease: a lease survives the loss of all but one.
constexpr double kHeartbeatsPerLease = 5;

// A heartbeat may name this many counters, with names this long. A process has
// about 15 of 30 characters.
constexpr size_t kMostCounters = 64;
constexpr size_t kLongestName = 64;

// A session's secret, in bytes.
constexpr size_t kLeastSecret = 16;
constexpr size_t kMostSecret = 64;

bool IsCounterName(const std::string& name) {
  return !name.empty() && name.size() <= kLongestName &&
         std::ranges::all_of(name, [](char c) {
           return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
                  c == '_' || c == '.';
         });
}

// What is kept of a heartbeat's counters: those whose names are such, the first
// kMostCounters by name. How many were left out stands among them.
CounterMap KeptOf(const google::protobuf::Map<std::string, int64_t>& said) {
  CounterMap kept;
  int64_t left_out = 0;
  for (const auto& [name, value] : said) {
    if (!IsCounterName(name)) {
      ++left_out;
      continue;
    }
    kept.emplace(name, value);
    if (kept.size() <= kMostCounters) continue;
    kept.erase(std::prev(kept.end()));
    ++left_out;
  }
  if (left_out > 0) kept["counters_left_out"] = left_out;
  return kept;
}

absl::Status Malformed(const Peer& peer, const std::string& what) {
  return absl::InvalidArgumentError(absl::StrCat(peer.ToString(), ": ", what));
}

}  // namespace

CoordinatorSessions::CoordinatorSessions(CoordinatorOptions options,
                                         absl::Time now)
    : options_(std::move(options)),
      grants_(options_.grant_secret),
      instruction_set_(options_.instruction_set),
      core_(options_, now),
      table_(options_.job.cluster().shards()) {}

absl::Status CoordinatorSessions::OnFrame(
    const std::shared_ptr<FrameSink>& connection,
    const proto::ToCoordinator& frame, absl::Time now) {
  return frame.has_join() ? OnJoin(connection, frame, now)
                          : OnMessage(*connection, frame, now);
}

void CoordinatorSessions::OnBroken(const FrameSink* connection,
                                   absl::Time now) {
  Seat* seat = table_.Find(connection);
  if (seat == nullptr) return;
  table_.Close(*seat);
  core_.Disconnected(seat->peer, seat->incarnation, now, &actions_);
}

absl::Status CoordinatorSessions::OnDeathReport(
    const proto::DeathReport& report, absl::Time now) {
  SLUICE_ASSIGN_OR_RETURN(
      const Peer peer,
      PeerFromProto("DeathReport", report.role(), report.id()));
  return core_.DeathReported(peer, report.process(), report.reason(), now,
                             &actions_);
}

void CoordinatorSessions::Tick(absl::Time now) {
  for (const Seat* seat : table_.LocalSeats()) {
    core_.Heard(seat->peer, seat->incarnation, now).IgnoreError();
  }
  core_.Tick(now, &actions_);
}

// Incarnations count from 1 in each generation: one of an earlier generation
// must not be taken for a life of this one.
absl::Status CoordinatorSessions::CheckGeneration(
    const proto::Join& join) const {
  const int64_t here = options_.generation.value();
  const int64_t there = std::max<int64_t>(join.generation(), 1);
  if (join.incarnation() == 0 || here == there) return absl::OkStatus();
  const std::string what =
      absl::StrCat("incarnation ", join.incarnation(), " is of generation ",
                   there, ", this is generation ", here);
  // Not for a coordinator whose time is over to end a life of a later one.
  return there > here ? absl::UnavailableError(what) : absl::AbortedError(what);
}

// Who does not know a session's secret must not end its connection, either.
absl::Status CoordinatorSessions::CheckSecret(const proto::Join& join,
                                              Peer peer) {
  const size_t bytes = join.session_secret().size();
  if (bytes < kLeastSecret || bytes > kMostSecret) {
    return Malformed(
        peer, absl::StrCat("session_secret has ", bytes, " bytes, expected ",
                           kLeastSecret, " to ", kMostSecret));
  }
  const Seat* seat = table_.Find(peer);
  if (seat == nullptr || seat->incarnation != Incarnation(join.incarnation()) ||
      SameSecret(seat->secret, join.session_secret())) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      peer.ToString(), ": session_secret is not that of the session"));
}

absl::Status CoordinatorSessions::OnJoin(
    const std::shared_ptr<FrameSink>& connection,
    const proto::ToCoordinator& frame, absl::Time now) {
  const proto::Join& join = frame.join();
  SLUICE_ASSIGN_OR_RETURN(const Peer peer,
                          PeerFromProto("Join", join.role(), join.id()));
  if (table_.Find(connection.get()) != nullptr)
    return Malformed(peer, "a second Join");
  if (join.any_number() &&
      (peer.role != Role::kWorker || join.incarnation() != 0)) {
    return Malformed(peer, "any_number is for the new life of a worker");
  }
  if (join.instruction_set() < 0 || join.instruction_set() > proto::AVX512) {
    return Malformed(peer,
                     absl::StrCat("instruction_set is ", join.instruction_set(),
                                  ", expected AVX2 or AVX512"));
  }
  if (end_.has_value() && !finish_.has_value()) {
    return absl::UnavailableError(absl::StrCat(
        peer.ToString(), ": generation ", options_.generation.value(),
        " is over, the next one follows"));
  }
  const absl::Status same_generation = CheckGeneration(join);
  if (!same_generation.ok()) {
    return absl::Status(
        same_generation.code(),
        absl::StrCat(peer.ToString(), ": ", same_generation.message()));
  }
  SLUICE_RETURN_IF_ERROR(CheckSecret(join, peer));
  const absl::Status received =
      table_.Acknowledge(peer, Incarnation(join.incarnation()), frame.ack());
  if (!received.ok()) return Malformed(peer, std::string(received.message()));
  // Last: whoever passes this has a life.
  SLUICE_ASSIGN_OR_RETURN(const Coordinator::JoinReply reply,
                          JoinCore(join, peer, now));
  const bool complete_before = !table_.ShardAddresses().empty();
  table_.Open(reply.peer, reply.incarnation, reply.resumed, join, connection,
              WelcomeFrame(reply.peer, reply.incarnation));
  if (finish_.has_value()) table_.SendFinish(FinishToProto(*finish_));
  if (complete_before || table_.ShardAddresses().empty()) {
    return absl::OkStatus();
  }
  // Whoever came before the last shard gets the addresses now.
  WelcomeAgain();
  return absl::OkStatus();
}

void CoordinatorSessions::WelcomeAgain() {
  for (Seat* seat : table_.ConnectedClients()) {
    table_.SendUnnumbered(*seat, WelcomeFrame(seat->peer, seat->incarnation));
  }
}

// Nobody works any more, so one that is gone need not come back.
Peer CoordinatorSessions::AnyWorkerAfterTheEnd() {
  Peer peer{Role::kWorker, 0};
  for (const Seat* seat = table_.Find(peer);
       seat != nullptr && seat->stream != nullptr; seat = table_.Find(peer)) {
    ++peer.id;
  }
  return peer;
}

// Nobody works any more, so the core does not hear of it.
absl::StatusOr<Coordinator::JoinReply> CoordinatorSessions::JoinAfterTheEnd(
    Peer peer, Incarnation resume) {
  const Seat* seat = table_.Find(peer);
  const Incarnation last = seat == nullptr ? Incarnation() : seat->incarnation;
  Coordinator::JoinReply reply{peer, options_.generation, last, true};
  if (seat != nullptr && !seat->over && last == resume) return reply;
  if (resume != Incarnation()) {
    return absl::AbortedError(absl::StrCat(peer.ToString(), ": incarnation ",
                                           resume.value(), " is over"));
  }
  ++reply.incarnation;
  reply.resumed = false;
  return reply;
}

absl::StatusOr<Coordinator::JoinReply> CoordinatorSessions::JoinCore(
    const proto::Join& join, Peer peer, absl::Time now) {
  Incarnation resume(join.incarnation());
  const bool any = join.any_number();
  Seat* seat =
      any ? table_.FindWorker(join.session_secret()) : table_.Find(peer);
  if (seat != nullptr) peer = seat->peer;
  if (finish_.has_value()) {
    if (any && seat == nullptr) peer = AnyWorkerAfterTheEnd();
    return JoinAfterTheEnd(peer, resume);
  }
  // The session's Welcome got lost, so its process asks for a life once more.
  if (seat != nullptr && resume == Incarnation() && !seat->over &&
      SameSecret(seat->secret, join.session_secret())) {
    resume = seat->incarnation;
  }
  // The process has given up its old connection before this end noticed.
  if (seat != nullptr && seat->incarnation == resume &&
      seat->stream != nullptr) {
    core_.Disconnected(peer, resume, now, &actions_);
  }
  Coordinator::JoinRequest request;
  request.peer = peer;
  request.any_number = any && seat == nullptr;
  request.resume = resume;
  request.address = join.address();
  request.process = join.process();
  const int most = StageCount(options_.job);
  for (int i = 0; i < std::min(most, join.members_size()); ++i) {
    request.members.push_back(join.members(i));
  }
  request.inputs = {join.inputs().begin(), join.inputs().end()};
  request.instruction_set = join.instruction_set();
  return core_.Join(request, now, &actions_);
}

proto::FromCoordinator CoordinatorSessions::WelcomeFrame(
    Peer peer, Incarnation incarnation) const {
  proto::FromCoordinator frame;
  proto::Welcome* welcome = frame.mutable_welcome();
  welcome->set_generation(options_.generation.value());
  welcome->set_incarnation(incarnation.value());
  welcome->set_id(peer.id);
  welcome->set_instruction_set(instruction_set_);
  for (const std::string& address : table_.ShardAddresses()) {
    welcome->add_shard_addresses(address);
  }
  welcome->set_heartbeat_every_s(options_.job.limits().lease_s() /
                                 kHeartbeatsPerLease);
  return frame;
}

absl::Status CoordinatorSessions::OnMessage(const FrameSink& connection,
                                            const proto::ToCoordinator& frame,
                                            absl::Time now) {
  Seat* seat = table_.Find(&connection);
  if (seat == nullptr) {
    // What is still under way on a connection that is being closed.
    if (connection.ending()) return absl::OkStatus();
    return absl::InvalidArgumentError("the first message must be a Join");
  }
  absl::Status status = seat->queue.Acknowledge(frame.ack());
  if (!status.ok()) return Malformed(seat->peer, std::string(status.message()));
  if (seat->finishing && seat->queue.unacknowledged() == 0) {
    table_.End(*seat, absl::OkStatus());
    return absl::OkStatus();
  }
  status = core_.Heard(seat->peer, seat->incarnation, now);
  // Who came after the end has no life there.
  if (!status.ok() && !finish_.has_value()) return status;
  if (frame.has_heartbeat()) {
    const proto::Heartbeat& heartbeat = frame.heartbeat();
    core_.CannotReach(seat->peer, seat->incarnation, heartbeat.waits_for(),
                      absl::Seconds(heartbeat.waits_s()), now);
    core_.Counted(seat->peer, seat->incarnation, KeptOf(heartbeat.counters()));
    // Answered, so that the peer knows that we live; but never queued up for
    // one that does not read.
    if (connection.idle()) {
      proto::FromCoordinator heartbeat;
      heartbeat.mutable_heartbeat();
      table_.SendUnnumbered(*seat, std::move(heartbeat));
    }
    return absl::OkStatus();
  }
  const absl::StatusOr<bool> is_new = seat->queue.Receive(frame.sequence());
  if (!is_new.ok()) {
    return Malformed(seat->peer, std::string(is_new.status().message()));
  }
  if (!*is_new) return absl::OkStatus();
  status = Dispatch(*seat, frame, now);
  if (frame.has_leave()) table_.End(*seat, absl::OkStatus());
  // A gradient whose task has ended: its worker has been told, or is about to
  // be.
  return absl::IsAborted(status) ? absl::OkStatus() : status;
}

absl::Status CoordinatorSessions::OnReady(const proto::Ready& ready,
                                          absl::Time now) {
  const absl::StatusOr<Delivery> delivery = DeliveryFromProto(ready);
  if (!delivery.ok()) {
    return Malformed({Role::kWorker, ready.key().worker()},
                     std::string(delivery.status().message()));
  }
  return core_.Ready(*delivery, now, &actions_);
}

absl::Status CoordinatorSessions::Dispatch(const Seat& seat,
                                           const proto::ToCoordinator& frame,
                                           absl::Time now) {
  const Peer peer = seat.peer;
  const auto from = [&](Role role) { return peer.role == role; };
  switch (frame.body_case()) {
    case proto::ToCoordinator::kReady: {
      const GradientKey key = KeyFromProto(frame.ready().key());
      if (!from(Role::kWorker) || key.worker.value() != peer.id) {
        return Malformed(peer, absl::StrCat("Ready for ", key.ToString()));
      }
      return OnReady(frame.ready(), now);
    }
    case proto::ToCoordinator::kRejected: {
      const GradientKey key = KeyFromProto(frame.rejected().key());
      if (!from(Role::kWorker) || key.worker.value() != peer.id) {
        return Malformed(peer, absl::StrCat("Rejected for ", key.ToString()));
      }
      return core_.Rejected(key, frame.rejected().reason(), now, &actions_);
    }
    case proto::ToCoordinator::kExecuted: {
      if (!from(Role::kShard)) return Malformed(peer, "Executed");
      const proto::Executed& executed = frame.executed();
      if (executed.digest_size() > 0) {
        actions_.push_back(DigestsFromProto(ShardId(peer.id), executed));
      }
      return core_.Executed(ShardId(peer.id), executed.decision(),
                            Version(executed.version()), executed.fault(), now,
                            &actions_);
    }
    case proto::ToCoordinator::kEvaluated: {
      if (!from(Role::kEvaluator)) return Malformed(peer, "Evaluated");
      const absl::StatusOr<Evaluation> evaluation =
          EvaluationFromProto(frame.evaluated());
      if (!evaluation.ok()) {
        return Malformed(peer, std::string(evaluation.status().message()));
      }
      core_.Evaluated(*evaluation, now, &actions_);
      return absl::OkStatus();
    }
    case proto::ToCoordinator::kStored: {
      if (!from(Role::kShard)) return Malformed(peer, "Stored");
      const proto::Stored& stored = frame.stored();
      // Of a generation that is over, it is nobody's.
      if (Generation(stored.generation()) != options_.generation) {
        return absl::OkStatus();
      }
      return core_.Stored(ShardId(peer.id), Version(stored.version()),
                          StoredPartFromProto(stored), now, &actions_);
    }
    case proto::ToCoordinator::kLeave:
      core_.Leave(peer, seat.incarnation, frame.leave().reason(), now,
                  &actions_, frame.leave().for_good());
      return absl::OkStatus();
    default:
      return Malformed(peer, absl::StrCat("message ", frame.sequence(),
                                          " has no known body"));
  }
}

// The grant is made here and not in the core: it is for whoever has the
// certificate of the worker's connection.
void CoordinatorSessions::SendTo(const Task& task) {
  const GradientKey& key = task.key;
  const Seat* seat = table_.Find(Peer{Role::kWorker, key.worker.value()});
  if (seat == nullptr) return;
  table_.SendToWorker(
      key.worker, key.incarnation,
      TaskToProto(task, grants_.GrantFor(key, seat->holder, task.turn)));
}

void CoordinatorSessions::Send(const Action& action, absl::Time now) {
  if (const auto* task = std::get_if<SendTask>(&action)) {
    SendTo(task->task);
  } else if (const auto* cancel = std::get_if<SendCancel>(&action)) {
    table_.SendToWorker(cancel->key.worker, cancel->key.incarnation,
                        CancelToProto(*cancel));
  } else if (const auto* verdict = std::get_if<SendVerdict>(&action)) {
    table_.SendToWorker(verdict->key.worker, verdict->key.incarnation,
                        VerdictToProto(*verdict));
  } else if (const auto* decision = std::get_if<SendDecision>(&action)) {
    table_.SendToShards(DecisionToProto(decision->decision));
  } else if (const auto* evaluate = std::get_if<SendEvaluate>(&action)) {
    table_.SendToEvaluator(EvaluateToProto(*evaluate));
  } else if (const auto* set = std::get_if<RecordInstructionSet>(&action)) {
    instruction_set_ = set->agreed;
    WelcomeAgain();
  } else if (const auto* end = std::get_if<EndSession>(&action)) {
    Seat* seat = table_.Find(end->peer);
    if (seat != nullptr && seat->incarnation == end->incarnation) {
      table_.End(*seat, absl::AbortedError(end->reason));
    }
  } else if (const auto* finish = std::get_if<FinishRun>(&action)) {
    Finish(*finish);
  } else if (const auto* over = std::get_if<EndGeneration>(&action)) {
    EndWith(*over, over->reason);
  }
  for (Seat* seat : table_.TakeOverflowed()) {
    core_.Leave(seat->peer, seat->incarnation,
                "it does not acknowledge what it is sent", now, &actions_);
  }
}

void CoordinatorSessions::Finish(const FinishRun& finish) {
  if (end_.has_value()) return;
  end_ = finish;
  finish_ = finish;
  table_.SendFinish(FinishToProto(finish));
}

void CoordinatorSessions::Supersede() {
  EndWith(Superseded(), "another process has taken the next one");
}

void CoordinatorSessions::EndWith(const GenerationEnd& end,
                                  const std::string& why) {
  if (end_.has_value()) return;
  end_ = end;
  table_.EndAll(absl::AbortedError(absl::StrCat(
      "generation ", options_.generation.value(), " is over: ", why)));
}

}  // namespace sluice

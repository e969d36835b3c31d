// Sessions between the processes of a FaultyCluster and its coordinators.
//
// Both ends are production code: ClientSession at the process,
// CoordinatorSessions at the coordinator. This file is only the connection in
// between. Frames of one direction arrive in order (SendFrame). If one is lost,
// the rest of that direction is lost too and both ends see the connection
// break, after which the session reconnects and resends. ConnectionEnded()
// decides whether a process reconnects or its life ends; EndLife() decides what
// comes after a life.
#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "ps_server/decisions/event_conversion.h"
#include "sim/testing/faulty_cluster.h"

namespace sluice {
namespace {

constexpr absl::Duration kAwakeEvery = absl::Milliseconds(200);
// How long the coordinator may wait without naming a reason: longer than a
// shard's pause.
constexpr absl::Duration kPatience = absl::Seconds(2);

VirtualTime Nanoseconds(absl::Duration duration) {
  return absl::ToInt64Nanoseconds(duration);
}

}  // namespace

// ---- Lives. ----

// Starts a process with empty memory.
void FaultyCluster::Start(size_t index) {
  Process& process = processes_[index];
  ++process.starts;
  process.up = true;
  process.finished = false;
  process.rejoin = RejoinPolicy();
  BeginLife(index, /*rejoins=*/false);
}

void FaultyCluster::BeginLife(size_t index, bool rejoins) {
  Process& process = processes_[index];
  ++process.lived;
  process.between = false;
  process.life.emplace();
  const bool worker = IsWorker(index);
  if (!worker) process.life->shard = NewShard(process.peer.id);
  ClientSession::Options options;
  options.address = "coordinator";
  options.join.set_role(worker ? proto::WORKER : proto::SHARD);
  options.join.set_id(process.peer.id);
  options.join.set_address(process.peer.ToString());
  options.join.set_process(absl::StrCat(index, " start ", process.starts));
  options.secret =
      absl::StrCat("the secret of process ", index, ", life ", process.lived);
  options.start_timeout = absl::Seconds(60);
  // Some seeds have workers that end when they are cut off for long. Most have
  // workers that keep trying.
  options.rejoin_timeout = seed_ % 3 == 0 ? kRejoinTimeout : absl::Minutes(10);
  options.rejoins = rejoins;
  process.life->session = std::make_unique<ClientSession>(options, Now());
  Connect(index);
  AwakeAndAgain(index);
}

// The session has ended, and with it the life. Either another life follows in
// place, or the process exits and is started again.
void FaultyCluster::EndLife(size_t index, const absl::Status& session) {
  Process& process = processes_[index];
  const Peer peer = process.peer;
  const auto finish = process.life->session->finish();
  ++process.lived;
  process.life->connection = nullptr;
  if (IsWorker(index)) {
    LifeEnd& end = process.life->end;
    end.session = session;
    end.finish = finish;
    if (process.rejoin.Rejoins(end)) {
      ++chance_.counts.new_lives;
      return BeginLife(index, /*rejoins=*/true);
    }
  } else {
    const auto next =
        AfterSession(session.ok() ? finish.value_or(proto::Finish())
                                  : absl::StatusOr<proto::Finish>(session));
    if (next.ok() && next->has_value()) return GoOnInPlace(index);
    Expect(next.ok() ||
               chance_.faults.kill_server + chance_.faults.double_server > 0,
           absl::StrCat(Name(index), " ends: ", next.status().message()));
  }
  process.up = false;
  process.finished = finish.has_value() && finish->failure().empty();
  if (process.finished) return;
  After(chance_.DrawTime(absl::Milliseconds(100), absl::Seconds(1)),
        [this, peer, index] {
          if (peer.role == Role::kWorker) return Start(index);
          if (NewestOf(peer.id) == index) StartShard(peer.id);
        });
}

// The shard's generation is over. Like ShardDaemon, it begins the next one once
// its writer is done.
void FaultyCluster::GoOnInPlace(size_t index) {
  Process& process = processes_[index];
  process.between = true;
  ++chance_.counts.shards_in_place;
  VirtualTime wait =
      chance_.DrawTime(absl::Milliseconds(1), absl::Milliseconds(100));
  if (process.life->writing.has_value()) {
    wait +=
        std::max<VirtualTime>(0, process.life->writing->until - queue_.now());
  }
  At(index, wait, [this, index] {
    // There is no coordinator to report to any more.
    if (processes_[index].life->writing.has_value()) {
      StoreHeld(index).IgnoreError();
    }
    BeginLife(index, /*rejoins=*/true);
  });
}

// ---- Sessions. ----

void FaultyCluster::Connect(size_t index) {
  Process& process = processes_[index];
  const std::optional<size_t> lead = ReachLead();
  process.life->open = false;
  if (!lead.has_value()) {
    return ConnectionEnded(index, absl::UnavailableError("nobody listens"));
  }
  const auto connection =
      std::make_shared<FaultyConnection>(index, process.lived, *lead);
  process.life->connection = connection;
  connection->carry = [this, connection = connection.get()](
                          const std::vector<proto::FromCoordinator>& frames,
                          const std::optional<absl::Status>& end) {
    const Link self = processes_[connection->process()].life->connection;
    if (self.get() != connection) return;
    for (const proto::FromCoordinator& frame : frames) ToClient(self, frame);
    if (!end.has_value() || Loses(IdOf(self->lead()), self->process())) return;
    // After the frames that have been written.
    After(std::max<VirtualTime>(1, self->down.arrival - queue_.now() + 1),
          [this, self, status = *end] { Break(self, status); });
  };
  FromClient(connection, process.life->session->Join());
}

void FaultyCluster::FromClient(const Link& connection,
                               const proto::ToCoordinator& frame) {
  const size_t l = connection->lead();
  SendFrame(connection, /*up=*/true, [=, this] {
    if (connection->broken || connection->ending()) return;
    CoordinatorSessions& sessions = leads_[l]->sessions;
    const absl::Status status = sessions.OnFrame(connection, frame, Now());
    if (status.ok()) {
      Heard(connection, frame);
    } else {
      connection->End(status);
    }
    CarryOut(l);
    connection->Flush();
  });
}

// The coordinator has received the frame, but has not sent what follows from
// it.
void FaultyCluster::Heard(const Link& connection,
                          const proto::ToCoordinator& frame) {
  Lead& lead = *leads_[connection->lead()];
  InvariantChecker& checker = lead.branch->checker;
  const int64_t from = processes_[connection->process()].peer.id;
  uint64_t& heard = lead.heard[{connection->process(), connection->life()}];
  const bool is_new = frame.sequence() > heard;
  heard = std::max(heard, frame.sequence());
  if (frame.has_executed()) {
    checker.Executed(from, frame.executed().decision());
  } else if (frame.has_ready()) {
    checker.Accepted(DeliveryFromProto(frame.ready())->key);
  } else if (frame.has_stored() && is_new && !lead.end().has_value() &&
             Generation(frame.stored().generation()) ==
                 lead.options.generation) {
    checker.Stored(from, Version(frame.stored().version()),
                   StoredPartFromProto(frame.stored()));
  }
}

void FaultyCluster::ToClient(const Link& connection,
                             const proto::FromCoordinator& frame) {
  const size_t to = connection->process();
  SendFrame(connection, /*up=*/false, [=, this] {
    FaultyLife& life = *processes_[to].life;
    if (life.connection != connection || connection->broken) return;
    ClientSession& session = *life.session;
    const int64_t before =
        session.welcomed() ? session.welcome().generation() : 0;
    const auto event = session.OnFrame(frame, Now());
    if (!event.ok()) return Break(connection, absl::CancelledError("cut"));
    if (frame.has_welcome()) {
      life.open = true;
      const int64_t generation = frame.welcome().generation();
      Expect(before == 0 || generation == before,
             absl::StrCat(Name(to), " of generation ", before,
                          " is taken for one of generation ", generation));
    }
    if (*event == ClientSession::Event::kMessage) {
      OnMessage(to, frame);
      if (frame.has_finish()) session.OnFinished(frame.finish());
    }
    Pump(to);
  });
}

void FaultyCluster::Break(const Link& connection, const absl::Status& status) {
  if (connection->broken) return;
  connection->broken = true;
  const size_t l = connection->lead();
  At(IdOf(l), 1, [=, this] {
    leads_[l]->sessions.OnBroken(connection.get(), Now());
    CarryOut(l);
  });
  const size_t index = connection->process();
  if (processes_[index].life->connection != connection) return;
  At(index, 1, [=, this] {
    if (processes_[index].life->connection == connection) {
      ConnectionEnded(index, status);
    }
  });
}

void FaultyCluster::ConnectionEnded(size_t index, const absl::Status& status) {
  FaultyLife& life = *processes_[index].life;
  life.connection = nullptr;
  life.open = false;
  const auto end = life.session->OnConnectionEnd(status, Now());
  if (end.has_value()) return EndLife(index, *end);
  ++chance_.counts.reconnects;
  At(index, Nanoseconds(life.session->Backoff()),
     [this, index] { Connect(index); });
}

void FaultyCluster::Pump(size_t index) {
  FaultyLife& life = *processes_[index].life;
  while (life.open && life.connection != nullptr) {
    const auto frame = life.session->NextFrame(Now());
    if (!frame.has_value()) return;
    FromClient(life.connection, *frame);
  }
}

void FaultyCluster::AwakeAndAgain(size_t index) {
  FaultyLife& life = *processes_[index].life;
  life.session->Awake(Now());
  if (Now() >= life.session->CutAt() && life.connection != nullptr) {
    Break(life.connection, absl::CancelledError("silent"));
  }
  Pump(index);
  At(index, Nanoseconds(kAwakeEvery), [this, index] { AwakeAndAgain(index); });
}

void FaultyCluster::TickAndAgain(size_t l) {
  Lead& lead = *leads_[l];
  if (lead.closing) return;
  lead.sessions.Tick(Now());
  // The lead notices by the log that another one has taken the next generation.
  if (l + 1 < leads_.size() && queue_.now() >= lead.blind_until) {
    lead.sessions.Supersede();
  }
  CarryOut(l);
  CheckProgress(lead);
  At(IdOf(l), Nanoseconds(options_.tick), [this, l] { TickAndAgain(l); });
}

void FaultyCluster::CarryOut(size_t l) {
  Lead& lead = *leads_[l];
  while (lead.sessions.has_actions()) {
    const Actions actions = lead.sessions.TakeActions();
    lead.branch->checker.Observe(actions);
    for (const Action& action : actions) {
      const auto* commit = std::get_if<RecordCommit>(&action);
      if (commit == nullptr) continue;
      lineage_.Committed(lead.options.generation, *commit);
    }
    Record(l, actions);
    for (const Action& action : actions) lead.sessions.Send(action, Now());
  }
  for (const auto& sink : lead.sessions.TakeTouched()) sink->Flush();
}

// Guarantee 7: a worker computes, or the status says whom the run waits for,
// except while a message is on its way.
void FaultyCluster::CheckProgress(Lead& lead) {
  const JobState state = lead.sessions.State(Now());
  const bool computing = std::ranges::any_of(
      state.workers, [](const WorkerState& w) { return w.computing; });
  if (computing || !state.waiting_for.empty() || lead.end()) {
    lead.last_culprit = queue_.now();
  }
  Expect(queue_.now() - lead.last_culprit < Nanoseconds(kPatience),
         "who waits names whom it waits for");
}

}  // namespace sluice

// The processes' sessions with the coordinator, and its side of them.
#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "ps_server/coordinator/event_conversion.h"
#include "sim/testing/faulty_cluster.h"

namespace sluice {
namespace {

constexpr absl::Duration kAwakeEvery = absl::Milliseconds(200);
// How long the coordinator may wait without naming a culprit: a shard's pause.
constexpr absl::Duration kPatience = absl::Seconds(2);

VirtualTime Nanoseconds(absl::Duration duration) {
  return absl::ToInt64Nanoseconds(duration);
}

}  // namespace

// ---- Sessions. ----

void FaultyCluster::Start(size_t index) {
  Process& process = processes_[index];
  ++process.life;
  process.up = true;
  process.finished = false;
  process.tasks.clear();
  process.work.reset();
  process.connection = nullptr;
  process.open = false;
  ClientSession::Options options;
  options.address = "coordinator";
  const bool worker = process.peer.role == Role::kWorker;
  options.join.set_role(worker ? proto::WORKER : proto::SHARD);
  options.join.set_id(process.peer.id);
  options.join.set_fingerprint(job_.fingerprint);
  options.join.set_address(process.peer.ToString());
  options.join.set_process(absl::StrCat(index, " life ", process.life));
  options.start_timeout = absl::Seconds(60);
  options.rejoin_timeout = kRejoinTimeout;
  options.can_begin_new_life = worker;
  process.session = std::make_unique<ClientSession>(options, Now());
  Connect(index);
  AwakeAndAgain(index);
}

void FaultyCluster::Connect(size_t index) {
  Process& process = processes_[index];
  const std::optional<size_t> lead = ReachLead();
  process.open = false;
  if (!lead.has_value()) {
    process.connection = nullptr;
    return ConnectionEnded(index, absl::UnavailableError("nobody listens"));
  }
  const auto connection = std::make_shared<FaultyConnection>(index, *lead);
  process.connection = connection;
  connection->carry = [this, connection = connection.get()](
                          const std::vector<proto::FromCoordinator>& frames,
                          const std::optional<absl::Status>& end) {
    const ConnectionPtr self = processes_[connection->process()].connection;
    if (self.get() != connection) return;
    for (const proto::FromCoordinator& frame : frames) ToClient(self, frame);
    if (!end.has_value()) return;
    // Behind what has been written.
    After(std::max<VirtualTime>(1, self->down.arrival - queue_.now() + 1),
          [this, self, status = *end] { Break(self, status); });
  };
  FromClient(connection, process.session->Join());
}

void FaultyCluster::FromClient(const ConnectionPtr& connection,
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

// The coordinator has heard of it; what follows comes after.
void FaultyCluster::Heard(const ConnectionPtr& connection,
                          const proto::ToCoordinator& frame) {
  Lead& lead = *leads_[connection->lead()];
  InvariantChecker& checker = lead.branch->checker;
  const int64_t from = processes_[connection->process()].peer.id;
  uint64_t& heard = lead.heard[connection->process()];
  const bool is_new = frame.sequence() > heard;
  heard = std::max(heard, frame.sequence());
  if (frame.has_executed()) {
    checker.Executed(from, frame.executed().decision());
  } else if (frame.has_ready()) {
    checker.Accepted(DeliveryFromProto(frame.ready()).key);
  } else if (frame.has_stored() && is_new && !lead.finish().has_value() &&
             Generation(frame.stored().generation()) ==
                 lead.options.generation) {
    checker.Stored(from, Version(frame.stored().version()),
                   StoredPartFromProto(frame.stored()));
  }
}

void FaultyCluster::ToClient(const ConnectionPtr& connection,
                             const proto::FromCoordinator& frame) {
  const size_t to = connection->process();
  SendFrame(connection, /*up=*/false, [=, this] {
    Process& process = processes_[to];
    if (process.connection != connection || connection->broken) return;
    ClientSession& session = *process.session;
    const int64_t before =
        session.welcomed() ? session.welcome().generation() : 0;
    const auto event = session.OnFrame(frame, Now());
    if (!event.ok()) return Break(connection, absl::CancelledError("cut"));
    if (frame.has_welcome()) {
      process.open = true;
      const proto::Welcome& welcome = frame.welcome();
      const bool resumed = *event == ClientSession::Event::kWelcome &&
                           before > 0 && welcome.shard_addresses_size() > 0;
      Expect(!resumed || welcome.generation() == before,
             absl::StrCat(Name(to), " of generation ", before,
                          " is taken for one of generation ",
                          welcome.generation()));
    }
    if (*event == ClientSession::Event::kNewLife) {
      ++counts_.new_lives;
      process.tasks.clear();
      process.work.reset();
    }
    if (*event == ClientSession::Event::kMessage) {
      OnMessage(to, frame);
      if (frame.has_finish()) process.session->OnFinished(frame.finish());
    }
    Pump(to);
  });
}

void FaultyCluster::Break(const ConnectionPtr& connection,
                          const absl::Status& status) {
  if (connection->broken) return;
  connection->broken = true;
  const size_t l = connection->lead();
  At(IdOf(l), 1, [=, this] {
    leads_[l]->sessions.OnBroken(connection.get(), Now());
    CarryOut(l);
  });
  const size_t index = connection->process();
  if (processes_[index].connection != connection) return;
  At(index, 1, [=, this] {
    if (processes_[index].connection == connection) {
      ConnectionEnded(index, status);
    }
  });
}

void FaultyCluster::ConnectionEnded(size_t index, const absl::Status& status) {
  Process& process = processes_[index];
  process.connection = nullptr;
  process.open = false;
  const auto end = process.session->OnConnectionEnd(status, Now());
  if (!end.has_value()) {
    ++counts_.reconnects;
    At(index, Nanoseconds(process.session->Backoff()),
       [this, index] { Connect(index); });
    return;
  }
  const auto& finish = process.session->finish();
  ++process.life;
  process.up = false;
  process.finished = finish.has_value() && finish->failure().empty();
  if (process.finished) return;
  // Its process ends with an error; somebody starts it again.
  const Peer peer = process.peer;
  const bool worker = peer.role == Role::kWorker;
  Expect(worker || faults_.kill_server + faults_.double_server > 0,
         absl::StrCat(Name(index), " lost its session: ", end->message()));
  After(DrawTime(absl::Milliseconds(100), absl::Seconds(1)),
        [this, peer, worker, index] {
          if (worker) return Start(index);
          if (NewestOf(peer.id) == index) StartShard(peer.id);
        });
}

void FaultyCluster::Pump(size_t index) {
  Process& process = processes_[index];
  while (process.open && process.connection != nullptr) {
    const auto frame = process.session->NextFrame(Now());
    if (!frame.has_value()) return;
    FromClient(process.connection, *frame);
  }
}

void FaultyCluster::AwakeAndAgain(size_t index) {
  Process& process = processes_[index];
  process.session->Awake(Now());
  if (Now() >= process.session->Deadline() && process.connection != nullptr) {
    Break(process.connection, absl::CancelledError("silent"));
  }
  Pump(index);
  At(index, Nanoseconds(kAwakeEvery), [this, index] { AwakeAndAgain(index); });
}

void FaultyCluster::TickAndAgain(size_t l) {
  Lead& lead = *leads_[l];
  lead.sessions.Tick(Now());
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

// Guarantee 7: a worker is at work, or it is said who is waited for; but for
// the moment that a message takes.
void FaultyCluster::CheckProgress(Lead& lead) {
  const JobState state = lead.sessions.State(Now());
  const bool computing = std::ranges::any_of(
      state.workers, [](const WorkerState& w) { return w.computing; });
  if (computing || !state.waiting_for.empty() || lead.finish()) {
    lead.last_culprit = queue_.now();
  }
  Expect(queue_.now() - lead.last_culprit < Nanoseconds(kPatience),
         "who waits names whom it waits for");
}

}  // namespace sluice

// The processes' sessions with the coordinator, and its side of them.
#include <algorithm>

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

// ---- A connection, as the coordinator sees it. ----

void FaultyCluster::Connection::Queue(proto::FromCoordinator frame) {
  if (!end_.has_value()) queued_.push_back(std::move(frame));
}

void FaultyCluster::Connection::End(const absl::Status& status) {
  if (end_.has_value()) return;
  end_ = status;
  queued_.clear();
}

void FaultyCluster::Connection::Flush() {
  const std::shared_ptr<Connection> self =
      cluster_->processes_[process_].connection;
  if (self.get() != this || broken) return;
  for (const proto::FromCoordinator& frame : std::exchange(queued_, {})) {
    cluster_->ToClient(self, frame);
  }
  if (!end_.has_value()) return;
  // Behind what has been written.
  cluster_->queue_.Add(
      std::max<VirtualTime>(1, down.arrival - cluster_->queue_.now() + 1),
      [cluster = cluster_, self, status = *end_] {
        cluster->Break(self, status);
      });
}

// ---- Sessions. ----

void FaultyCluster::Start(size_t index) {
  Process& process = processes_[index];
  ++process.life;
  process.up = true;
  process.tasks.clear();
  process.work.reset();
  process.connection = nullptr;
  process.open = false;
  ClientSession::Options options;
  options.address = "coordinator";
  const bool worker = process.peer.role == Role::kWorker;
  options.join.set_role(worker ? proto::WORKER : proto::SHARD);
  options.join.set_id(process.peer.id);
  options.join.set_fingerprint(kFingerprint);
  options.join.set_address(process.peer.ToString());
  options.join.set_process(absl::StrCat("life ", process.life));
  options.start_timeout = absl::Seconds(60);
  options.rejoin_timeout = kRejoinTimeout;
  options.can_begin_new_life = worker;
  process.session = std::make_unique<ClientSession>(options, Now());
  Connect(index);
  AwakeAndAgain(index);
}

void FaultyCluster::Connect(size_t index) {
  Process& process = processes_[index];
  process.connection = std::make_shared<Connection>(this, index);
  process.open = false;
  FromClient(process.connection, process.session->Join());
}

void FaultyCluster::FromClient(const std::shared_ptr<Connection>& connection,
                               const proto::ToCoordinator& frame) {
  const size_t from = connection->process();
  SendFrame(connection, /*up=*/true, [=, this] {
    if (connection->broken || connection->ending()) return;
    if (frame.has_executed()) {
      checker_.Executed(processes_[from].peer.id, frame.executed().decision());
    }
    const absl::Status status = coordinator_.OnFrame(connection, frame, Now());
    if (status.ok() && frame.has_ready()) {
      checker_.Accepted(DeliveryFromProto(frame.ready()).key);
    }
    if (!status.ok()) connection->End(status);
    CarryOut();
    connection->Flush();
  });
}

void FaultyCluster::ToClient(const std::shared_ptr<Connection>& connection,
                             const proto::FromCoordinator& frame) {
  const size_t to = connection->process();
  SendFrame(connection, /*up=*/false, [=, this] {
    Process& process = processes_[to];
    if (process.connection != connection || connection->broken) return;
    const auto event = process.session->OnFrame(frame, Now());
    if (!event.ok()) return Break(connection, absl::CancelledError("cut"));
    if (frame.has_welcome()) process.open = true;
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

void FaultyCluster::Break(const std::shared_ptr<Connection>& connection,
                          const absl::Status& status) {
  if (connection->broken) return;
  connection->broken = true;
  At(kCoordinator, 1, [=, this] {
    coordinator_.OnBroken(connection.get(), Now());
    CarryOut();
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
  ++process.life;
  process.up = false;
  if (end->ok()) {
    process.finished = true;
    return;
  }
  Expect(process.peer.role == Role::kWorker,
         absl::StrCat(Name(index), " lost its session: ", end->message()));
  // Its process ends with an error; somebody starts it again.
  At(kCoordinator, Nanoseconds(absl::Milliseconds(500)),
     [this, index] { Start(index); });
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

void FaultyCluster::TickAndAgain() {
  coordinator_.Tick(Now());
  CarryOut();
  CheckProgress();
  At(kCoordinator, Nanoseconds(options_.tick), [this] { TickAndAgain(); });
}

void FaultyCluster::CarryOut() {
  while (coordinator_.has_actions()) {
    const Actions actions = coordinator_.TakeActions();
    checker_.Observe(actions);
    for (const Action& action : actions) {
      if (const auto* commit = std::get_if<RecordCommit>(&action)) {
        reference_.Commit(*commit);
      }
      coordinator_.Send(action, Now());
    }
  }
  for (const auto& sink : coordinator_.TakeTouched()) sink->Flush();
}

// Guarantee 7: a worker is at work, or it is said who is waited for; but for
// the moment that a message takes.
void FaultyCluster::CheckProgress() {
  const JobState state = coordinator_.State(Now());
  const bool computing = std::ranges::any_of(
      state.workers, [](const WorkerState& w) { return w.computing; });
  if (computing || !state.waiting_for.empty() || coordinator_.finish()) {
    last_culprit_ = queue_.now();
  }
  Expect(queue_.now() - last_culprit_ < Nanoseconds(kPatience),
         "who waits names whom it waits for");
}

}  // namespace sluice

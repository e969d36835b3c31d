// The run, the network, and what goes wrong with processes and links.
#include "sim/testing/faulty_cluster.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

constexpr int64_t kFloats = 100;
constexpr absl::Duration kStrikeEvery = absl::Milliseconds(100);

}  // namespace

FaultyCluster::FaultyCluster(const CoordinatorOptions& options,
                             const Faults& faults, uint64_t seed)
    : options_(options),
      faults_(faults),
      seed_(seed),
      random_(seed, "faulty cluster"),
      coordinator_({options, kFingerprint, ""}, absl::UnixEpoch()),
      checker_(options),
      reference_(options),
      processes_(options.shards + options.workers) {
  const ParameterLayout layout =
      ReferenceWeights::Layout(kFloats, options.shards);
  for (int s = 0; s < options.shards; ++s) {
    processes_[s].peer = {Role::kShard, s};
    processes_[s].shard = std::make_unique<Shard>(
        ReferenceWeights::OptionsOf(layout, s, options.staged_gradients));
  }
  for (int w = 0; w < options.workers; ++w) {
    processes_[options.shards + w].peer = {Role::kWorker, w};
  }
}

void FaultyCluster::Run(absl::Duration heal, absl::Duration end) {
  for (size_t i = 0; i < processes_.size(); ++i) {
    At(kCoordinator, Draw(1000000), [this, i] { Start(i); });
  }
  TickAndAgain();
  StrikeProcesses();
  After(absl::ToInt64Nanoseconds(heal), [this] {
    healed_ = true;
    partitioned_until_.clear();
  });
  std::optional<absl::Time> finished;
  const auto over = [&] {
    if (!coordinator_.finish().has_value()) return false;
    if (!finished.has_value()) finished = Now();
    // As the daemon does: who does not come back is not waited for.
    return coordinator_.EverybodyTold() || Now() - *finished > kRejoinTimeout;
  };
  while (!over() && violation_.empty()) {
    Expect(Now() - absl::UnixEpoch() < end, "the run ends");
    ++events_;
    queue_.Take()();
    Expect(checker_.violation().empty(), checker_.violation());
  }
  if (!violation_.empty()) return;
  Expect(coordinator_.finish()->failure.empty(),
         coordinator_.finish()->failure);
  checker_.CheckEnd();
  Expect(checker_.violation().empty(), checker_.violation());
}

std::string FaultyCluster::Describe() const {
  const JobState state = coordinator_.State(Now());
  std::string text = absl::StrCat("version ", state.version.value(),
                                  ", waiting for \"", state.waiting_for, "\"");
  if (coordinator_.finish().has_value()) {
    absl::StrAppend(&text, "; the run is over: ", coordinator_.finish()->reason,
                    coordinator_.finish()->failure);
  }
  for (const Process& process : processes_) {
    absl::StrAppend(&text, "; ", process.peer.ToString(),
                    process.up ? " up" : " down",
                    process.open ? " connected" : "");
    if (process.shard != nullptr) {
      absl::StrAppend(&text, " at decision ", process.shard->executed());
    } else {
      const WorkerState& seen = state.workers[process.peer.id];
      absl::StrAppend(&text, seen.computing ? " computing" : "", " life ",
                      static_cast<int>(seen.life), ", ", process.tasks.size(),
                      " tasks");
      if (process.work.has_value()) {
        absl::StrAppend(&text, ", works on ",
                        process.work->task.ShortDebugString());
      }
    }
  }
  return text;
}

std::string FaultyCluster::Violation() const {
  return violation_.empty() ? ""
                            : absl::StrCat("seed ", seed_, ": ", violation_);
}

void FaultyCluster::Expect(bool holds, const std::string& rule) {
  if (holds || !violation_.empty()) return;
  violation_ = absl::StrCat(rule, " (after ",
                            absl::FormatDuration(Now() - absl::UnixEpoch()),
                            ", event ", events_, "): ", Describe());
}

std::string FaultyCluster::Name(int64_t process) const {
  return process < 0 ? "coordinator" : processes_[process].peer.ToString();
}

// ---- The network. ----

uint64_t FaultyCluster::Draw(uint64_t below) {
  return random_.Uint64(draws_++) % below;
}

bool FaultyCluster::Strikes(int per_thousand) {
  return !healed_ && Draw(1000) < static_cast<uint64_t>(per_thousand);
}

VirtualTime FaultyCluster::DrawTime(absl::Duration least, absl::Duration most) {
  return absl::ToInt64Nanoseconds(least) +
         Draw(absl::ToInt64Nanoseconds(most - least));
}

void FaultyCluster::At(int64_t process, VirtualTime delay, Body body) {
  const int64_t life = process < 0 ? 0 : processes_[process].life;
  queue_.Add(delay, [this, process, life, body = std::move(body)] {
    const bool coordinator = process < 0;
    if (!coordinator && processes_[process].life != life) return;
    const VirtualTime until = coordinator ? coordinator_paused_until_
                                          : processes_[process].paused_until;
    if (until > queue_.now()) {
      At(process, until - queue_.now(), body);
    } else {
      body();
    }
  });
}

bool FaultyCluster::Partitioned(int64_t a, int64_t b) const {
  const auto it = partitioned_until_.find(std::minmax(a, b));
  return it != partitioned_until_.end() && it->second > queue_.now();
}

VirtualTime FaultyCluster::DrawLatency() {
  const VirtualTime least =
      DrawTime(absl::Microseconds(100), absl::Milliseconds(2));
  if (!Strikes(faults_.delay)) return least;
  ++counts_.delayed;
  return least + DrawTime(absl::ZeroDuration(), absl::Milliseconds(300));
}

bool FaultyCluster::Loses(int64_t from, int64_t to) {
  if (!Partitioned(from, to) && !Strikes(faults_.lose)) return false;
  ++counts_.lost;
  return true;
}

void FaultyCluster::SendFrame(const std::shared_ptr<Connection>& connection,
                              bool up, const Body& body) {
  const int64_t from = up ? connection->process() : kCoordinator;
  const int64_t to = up ? kCoordinator : connection->process();
  Connection::Lane& lane = up ? connection->up : connection->down;
  if (lane.dead) return;
  if (Loses(from, to)) {
    lane.dead = true;
    At(kCoordinator, DrawTime(absl::Milliseconds(1), absl::Milliseconds(200)),
       [=, this] { Break(connection, absl::UnavailableError("reset")); });
    return;
  }
  lane.arrival = std::max(lane.arrival, queue_.now() + DrawLatency());
  At(to, lane.arrival - queue_.now(), body);
}

void FaultyCluster::Send(int64_t from, int64_t to, const Body& body) {
  if (Loses(from, to)) return;
  const VirtualTime delay = DrawLatency();
  At(to, delay, body);
  if (Strikes(faults_.duplicate)) {
    ++counts_.duplicated;
    At(to, delay + DrawTime(absl::ZeroDuration(), absl::Milliseconds(20)),
       body);
  }
}

void FaultyCluster::StrikeProcesses() {
  if (healed_) return;
  for (int64_t i = kCoordinator; i < std::ssize(processes_); ++i) {
    if (Strikes(faults_.pause)) Pause(i);
    const bool worker = i >= options_.shards;
    if (worker && processes_[i].up && Strikes(faults_.kill)) Kill(i);
    // A link to the coordinator, or of a worker to a shard.
    const int64_t other =
        worker ? static_cast<int64_t>(Draw(options_.shards + 1)) - 1
               : kCoordinator;
    if (other != i && Strikes(faults_.partition)) {
      ++counts_.partitions;
      partitioned_until_[std::minmax(i, other)] =
          queue_.now() + DrawTime(absl::Milliseconds(10), absl::Seconds(1));
    }
  }
  After(absl::ToInt64Nanoseconds(kStrikeEvery), [this] { StrikeProcesses(); });
}

// A shard or a coordinator that is away for longer than a lease ends the run.
void FaultyCluster::Pause(int64_t process) {
  ++counts_.pauses;
  const absl::Duration most =
      process >= options_.shards ? 2 * options_.lease : absl::Seconds(1);
  const VirtualTime until =
      queue_.now() + DrawTime(absl::Milliseconds(10), most);
  VirtualTime& paused = process < 0 ? coordinator_paused_until_
                                    : processes_[process].paused_until;
  paused = std::max(paused, until);
}

void FaultyCluster::Kill(size_t process) {
  ++counts_.kills;
  Process& dead = processes_[process];
  dead.up = false;
  ++dead.life;
  dead.paused_until = 0;
  const auto connection = dead.connection;
  // The coordinator hears of it at once, or only by the lease.
  if (Draw(2) == 0 && connection != nullptr) {
    At(kCoordinator, DrawTime(absl::Milliseconds(1), absl::Milliseconds(50)),
       [this, connection] { Break(connection, absl::OkStatus()); });
  }
  At(kCoordinator, DrawTime(absl::Milliseconds(100), absl::Seconds(8)),
     [this, process] { Start(process); });
}

}  // namespace sluice

// The event loop of FaultyCluster, its network, and the faults of processes and
// links.
//
// Everything that happens is a closure in queue_, and every random decision is
// a draw of chance_. So the seed determines the whole run, and a failing seed
// can be run again. A closure that belongs to a process goes through At(),
// which drops it if the process has died or begun another life in the meantime,
// and delays it while the process is paused. For example, a worker that is
// killed at 3.0 s and started again at 3.5 s never sees a message that was sent
// to its first life and arrives at 3.6 s.
//
// StrikeProcesses() strikes ten times a second until Heal(). From then on the
// cluster must finish the run by itself.
#include "sim/testing/faulty_cluster.h"

#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "sim/testing/faulty_job.h"

namespace sluice {
namespace {

constexpr absl::Duration kStrikeEvery = absl::Milliseconds(100);

}  // namespace

FaultyCluster::FaultyCluster(const CoordinatorOptions& options,
                             const Faults& faults, uint64_t seed,
                             std::string run_dir)
    : options_(options),
      seed_(seed),
      run_dir_(std::move(run_dir)),
      job_(FaultyJob(options)),
      layout_(ReferenceWeights::Layout(options.job.cluster().shards())),
      chance_(faults, seed),
      lineage_(options),
      processes_(std::max(options.job.cluster().workers(),
                          options.job.cluster().max_workers())),
      newest_(options.job.cluster().shards()) {
  for (size_t w = 0; w < processes_.size(); ++w) {
    processes_[w].peer = {Role::kWorker, static_cast<int64_t>(w)};
  }
  std::filesystem::remove_all(run_dir_);
}

FaultyCluster::~FaultyCluster() { std::filesystem::remove_all(run_dir_); }

void FaultyCluster::Run(absl::Duration heal, absl::Duration end) {
  StartLead({});
  for (int s = 0; s < shards(); ++s) {
    After(chance_.Draw(1000000), [this, s] { StartShard(s); });
  }
  for (int w = 0; w < options_.job.cluster().workers(); ++w) {
    After(chance_.Draw(1000000), [this, w] { Start(w); });
  }
  for (int w = options_.job.cluster().workers();
       w < options_.job.cluster().max_workers(); ++w) {
    After(chance_.DrawTime(absl::ZeroDuration(), absl::Seconds(2)),
          [this, w] { Start(w); });
  }
  StrikeProcesses();
  After(absl::ToInt64Nanoseconds(heal), [this] { Heal(); });
  while (violation_.empty() && !Over()) {
    Expect(Now() - absl::UnixEpoch() < end, "the run ends");
    ++events_;
    queue_.Take()();
    const std::string broken = lineage_.Violation();
    Expect(broken.empty(), broken);
  }
  if (violation_.empty()) CheckEnd();
}

void FaultyCluster::CheckEnd() {
  Lead& lead = *leads_[*ended_];
  lead.branch->checker.CheckEnd();
  const JobState state = lead.sessions.State(Now());
  // If a coordinator was replaced without knowing it, its last decisions are
  // not in the counts of the later ones.
  const GradientCounts& g = state.counters;
  const int64_t counted =
      g.applied + g.cancelled + g.dropped + g.rejected + g.lost;
  Expect(logs_are_whole_ ? counted == lineage_.tasks()
                         : counted <= lineage_.tasks(),
         absl::StrCat(counted, " tasks have an end, of ", lineage_.tasks()));
  // A later generation may have been taken that has no process yet.
  if (*ended_ + 1 == leads_.size()) lineage_.CheckEnd(run_dir_, state.version);
  const std::string broken = lineage_.Violation();
  Expect(broken.empty(), broken);
}

bool FaultyCluster::Over() {
  if (ended_.has_value()) return true;
  for (size_t l = 0; l < leads_.size(); ++l) {
    Lead& lead = *leads_[l];
    if (!lead.up || lead.closing || !lead.end().has_value()) continue;
    if (!lead.ended.has_value()) lead.ended = Now();
    // Like the daemon, does not wait for a process that does not come back.
    if (!lead.sessions.EverybodyTold() &&
        Now() - *lead.ended <= kRejoinTimeout) {
      continue;
    }
    if (lead.finish().has_value() && lead.finish()->failure.empty()) {
      ended_ = l;
      return true;
    }
    EndLead(l);
  }
  return false;
}

std::string FaultyCluster::Describe() const {
  std::string text;
  for (const auto& lead : leads_) {
    const JobState state = lead->sessions.State(Now());
    absl::StrAppend(&text, "; generation ", lead->options.generation.value(),
                    lead->up ? "" : " down", " at version ",
                    state.version.value(), ", waiting for \"",
                    state.waiting_for, "\"");
    if (lead->end().has_value()) {
      absl::StrAppend(&text,
                      ", over: ", lead->finish().has_value() ? "the run, " : "",
                      state.message);
    }
  }
  for (const Process& process : processes_) {
    if (!process.life.has_value()) continue;
    const FaultyLife& life = *process.life;
    if (!process.up && life.shard != nullptr) continue;
    absl::StrAppend(&text, "; ", process.peer.ToString(),
                    process.up ? " up" : " down",
                    process.between ? " between generations" : "",
                    life.open ? " connected" : "");
    if (life.shard != nullptr) {
      absl::StrAppend(&text, " of generation ",
                      life.shard->generation().value(), " at decision ",
                      life.shard->executed());
    } else if (life.work.has_value()) {
      absl::StrAppend(&text, ", works on ", life.work->task.ShortDebugString());
    }
  }
  return text;
}

std::string FaultyCluster::Violation() const {
  return violation_.empty()
             ? ""
             : absl::StrCat(proto::Policy_Name(options_.job.sync().policy()),
                            ", seed ", seed_, ": ", violation_);
}

void FaultyCluster::Expect(bool holds, const std::string& rule) {
  if (holds || !violation_.empty()) return;
  violation_ = absl::StrCat(rule, " (after ",
                            absl::FormatDuration(Now() - absl::UnixEpoch()),
                            ", event ", events_, ")", Describe());
}

std::string FaultyCluster::Name(int64_t id) const {
  return id < 0 ? "coordinator" : processes_[id].peer.ToString();
}

// ---- The network. ----

int64_t FaultyCluster::LifeOf(int64_t id) const {
  return id < 0 ? 0 : processes_[id].lived;
}

bool FaultyCluster::IsUp(int64_t id) const {
  return id < 0 ? leads_[-1 - id]->up : processes_[id].up;
}

VirtualTime& FaultyCluster::PausedUntil(int64_t id) {
  return id < 0 ? leads_[-1 - id]->paused_until : processes_[id].paused_until;
}

void FaultyCluster::At(int64_t id, VirtualTime delay, Body body) {
  queue_.Add(delay, [this, id, life = LifeOf(id), body = std::move(body)] {
    if (!IsUp(id) || LifeOf(id) != life) return;
    const VirtualTime until = PausedUntil(id);
    if (until > queue_.now()) {
      At(id, until - queue_.now(), body);
    } else {
      body();
    }
  });
}

bool FaultyCluster::Partitioned(int64_t a, int64_t b) const {
  const auto it = partitioned_until_.find(std::minmax(a, b));
  return it != partitioned_until_.end() && it->second > queue_.now();
}

bool FaultyCluster::Loses(int64_t from, int64_t to) {
  if (!Partitioned(from, to) && !chance_.Strikes(chance_.faults.lose))
    return false;
  ++chance_.counts.lost;
  return true;
}

void FaultyCluster::SendFrame(const Link& connection, bool up,
                              const Body& body) {
  const auto process = static_cast<int64_t>(connection->process());
  const int64_t lead = IdOf(connection->lead());
  FaultyConnection::Lane& lane = up ? connection->up : connection->down;
  if (lane.dead) return;
  if (Loses(process, lead)) {
    lane.dead = true;
    After(chance_.DrawTime(absl::Milliseconds(1), absl::Milliseconds(200)),
          [=, this] { Break(connection, absl::UnavailableError("reset")); });
    return;
  }
  lane.arrival = std::max(lane.arrival, queue_.now() + chance_.DrawLatency());
  At(up ? lead : process, lane.arrival - queue_.now(), body);
}

void FaultyCluster::Send(int64_t from, int64_t to, const Body& body) {
  if (Loses(from, to)) return;
  const VirtualTime delay = chance_.DrawLatency();
  At(to, delay, body);
  if (chance_.Strikes(chance_.faults.duplicate)) {
    ++chance_.counts.duplicated;
    At(to,
       delay + chance_.DrawTime(absl::ZeroDuration(), absl::Milliseconds(20)),
       body);
  }
}

// ---- What strikes processes and links. ----

void FaultyCluster::StrikeProcesses() {
  if (chance_.healed()) return;
  const size_t leads = leads_.size(), processes = processes_.size();
  for (size_t l = 0; l < leads; ++l) {
    if (!leads_[l]->up) continue;
    if (chance_.Strikes(chance_.faults.pause)) Pause(IdOf(l));
    if (chance_.Strikes(chance_.faults.double_server)) Double(IdOf(l));
    if (chance_.Strikes(chance_.faults.kill_server)) KillLead(l);
  }
  for (size_t i = 0; i < processes; ++i) {
    if (!processes_[i].up) continue;
    if (chance_.Strikes(chance_.faults.pause)) Pause(i);
    StrikeLink(i);
    if (IsWorker(i)) {
      if (chance_.Strikes(chance_.faults.leave)) {
        ++chance_.counts.leaves;
        processes_[i].life->end.told_to_leave = true;
        Leave(i, "told to");
      }
      if (chance_.Strikes(chance_.faults.kill)) Kill(i);
      continue;
    }
    if (chance_.Strikes(chance_.faults.double_server)) Double(i);
    if (chance_.Strikes(chance_.faults.kill_server)) KillShard(i);
  }
  After(absl::ToInt64Nanoseconds(kStrikeEvery), [this] { StrikeProcesses(); });
}

// Cuts a link to the coordinator, or one between a worker and a shard.
void FaultyCluster::StrikeLink(int64_t id) {
  const uint64_t pick = IsWorker(id) ? chance_.Draw(shards() + 1) : 0;
  if (!chance_.Strikes(chance_.faults.partition)) return;
  const int64_t other = pick == 0 ? IdOf(leads_.size() - 1)
                                  : static_cast<int64_t>(NewestOf(pick - 1));
  ++chance_.counts.partitions;
  partitioned_until_[std::minmax(id, other)] =
      queue_.now() + chance_.DrawTime(absl::Milliseconds(10), absl::Seconds(1));
}

// Shards are paused for less than a lease, because a shard that is silent for
// longer ends its generation. That case is left to KillShard.
void FaultyCluster::Pause(int64_t id) {
  ++chance_.counts.pauses;
  const absl::Duration most =
      IsWorker(id) ? 2 * absl::Seconds(options_.job.limits().lease_s())
                   : absl::Seconds(1);
  const VirtualTime until =
      queue_.now() + chance_.DrawTime(absl::Milliseconds(10), most);
  PausedUntil(id) = std::max(PausedUntil(id), until);
}

// Kills a worker. The coordinator learns of it at once, or only by the lease.
void FaultyCluster::Kill(size_t process) {
  ++chance_.counts.kills;
  Process& dead = processes_[process];
  dead.up = false;
  ++dead.lived;
  dead.paused_until = 0;
  const auto connection = std::exchange(dead.life->connection, nullptr);
  if (chance_.Draw(2) == 0 && connection != nullptr) {
    After(chance_.DrawTime(absl::Milliseconds(1), absl::Milliseconds(50)),
          [this, connection] { Break(connection, absl::OkStatus()); });
  }
  if (StaysAway(process)) return;
  After(chance_.DrawTime(absl::Milliseconds(100), absl::Seconds(8)),
        [this, process] { Start(process); });
}

// Not before the run has begun, for which everybody is waited for.
bool FaultyCluster::StaysAway(size_t worker) {
  const proto::Sync& sync = options_.job.sync();
  const auto left =
      std::ranges::count_if(processes_, [](const Process& process) {
        return process.peer.role == Role::kWorker && !process.away;
      });
  if (lineage_.updates() == 0 ||
      left <= (sync.policy() == proto::SYNC ? 1 : sync.k()) ||
      !chance_.Strikes(chance_.faults.stay_away)) {
    return false;
  }
  ++chance_.counts.stayed_away;
  processes_[worker].away = true;
  return true;
}

void FaultyCluster::Heal() {
  chance_.Heal();
  partitioned_until_.clear();
  // Processes that were replaced without knowing it are found and ended.
  for (size_t l = 0; l + 1 < leads_.size(); ++l) {
    if (leads_[l]->up) KillLead(l);
  }
  for (size_t i = 0; i < processes_.size(); ++i) {
    const Process& process = processes_[i];
    if (IsWorker(i) || !process.up || NewestOf(process.peer.id) == i) continue;
    KillShard(i);
  }
}

}  // namespace sluice

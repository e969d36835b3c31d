// Lives of shards and coordinators in a FaultyCluster: how they begin, how they
// die, and how two of the same exist at once.
//
// A server that dies is started again by a supervisor after a random time.
// Double() instead starts a second process while the first lives on, as happens
// when a host is cut off and its work is moved. Then messages may reach either
// of the two, and the generations must sort it out: of two coordinators the one
// that takes the next generation on disk wins, and a shard's second process
// ends the generation of the first.
//
// A generation may end only for a reason. `disturbed` marks the generations
// that some fault has touched; if another one ends, that is a violation.
#include <algorithm>
#include <filesystem>

#include "absl/strings/str_cat.h"
#include "common/files/storage_retry.h"
#include "ps_server/coordinator/log/generations.h"
#include "sim/testing/faulty_cluster.h"

namespace sluice {
namespace {

constexpr absl::Duration kStorageTimeout = absl::Seconds(3);
constexpr char kRunId[] = "simulated";

// A clock for a process that waits while nothing else happens.
class OwnClock final : public Clock {
 public:
  explicit OwnClock(absl::Time now) : now_(now) {}
  absl::Time Now() override { return now_; }
  void Advance(absl::Duration by) { now_ += by; }

 private:
  absl::Time now_;
};

}  // namespace

// A process that looks for the point to resume from.
struct FaultyCluster::Look {
  EarlierLife earlier;
  std::shared_ptr<FaultyReads> disk;
  StorageRetry retry;
};

// ---- Shards. ----

// Starts a new process for the shard, with empty memory.
void FaultyCluster::StartShard(int64_t shard) {
  newest_[shard] = processes_.size();
  processes_.emplace_back().peer = {Role::kShard, shard};
  Start(newest_[shard]);
}

std::unique_ptr<Shard> FaultyCluster::NewShard(int64_t shard) {
  ShardOptions options = ReferenceWeights::OptionsOf(
      layout_, shard, options_.job.limits().staged_gradients());
  // As in ShardServer, but it takes no virtual time.
  options.stored_version = [this](const Restore& of, ParameterRange range) {
    FaultyReads disk = chance_.DrawReads();
    OwnClock clock(Now());
    auto loaded = ReadWithRetries(
        kStorageTimeout, &clock,
        [&](const absl::Status&, absl::Duration pause) {
          clock.Advance(pause);
          return true;
        },
        [&] { return ReadStoredVersion(job_, run_dir_, of, range, &disk); });
    if (absl::IsUnavailable(loaded.status())) {
      ++chance_.counts.reads_given_up;
      Disturb();
    }
    return loaded;
  };
  return std::make_unique<Shard>(std::move(options));
}

bool FaultyCluster::SomeShardIsDoubled() const {
  for (size_t i = 0; i < processes_.size(); ++i) {
    const Process& process = processes_[i];
    if (IsWorker(i) || !process.up) continue;
    if (NewestOf(process.peer.id) != i) return true;
  }
  return false;
}

// While two processes of the shard live, a message may reach either.
std::optional<size_t> FaultyCluster::Reach(int64_t shard) {
  std::vector<size_t> alive;
  for (size_t i = 0; i < processes_.size(); ++i) {
    const Process& process = processes_[i];
    if (!process.up || process.between) continue;
    if (process.peer == Peer{Role::kShard, shard}) alive.push_back(i);
  }
  if (alive.empty()) return std::nullopt;
  return alive.size() == 1 ? alive[0] : alive[chance_.Draw(alive.size())];
}

void FaultyCluster::KillShard(size_t index) {
  Process& dead = processes_[index];
  ++chance_.counts.shard_kills;
  Disturb();
  if (dead.life->writing.has_value()) {
    ++chance_.counts.torn_writes;
    FaultyFiles disk(chance_.DrawDeath(), static_cast<int>(chance_.Draw(8)));
    WriteHeld(index, &disk).IgnoreError();
  }
  dead.up = false;
  ++dead.lived;
  dead.life->writing.reset();
  dead.life->reads.clear();
  const auto connection = std::exchange(dead.life->connection, nullptr);
  if (chance_.Draw(2) == 0 && connection != nullptr) {
    After(chance_.DrawTime(absl::Milliseconds(1), absl::Milliseconds(50)),
          [this, connection] { Break(connection, absl::OkStatus()); });
  }
  const int64_t shard = dead.peer.id;
  After(chance_.DrawTime(absl::Milliseconds(100), absl::Seconds(8)),
        [this, shard, index] {
          if (NewestOf(shard) == index) StartShard(shard);
        });
}

// ---- Coordinators. ----

bool FaultyCluster::LeadIsUp() const {
  return std::ranges::any_of(leads_, [](const auto& l) { return l->up; });
}

// While two coordinators live, a message may reach either.
std::optional<size_t> FaultyCluster::ReachLead() {
  std::vector<size_t> alive;
  for (size_t l = 0; l < leads_.size(); ++l) {
    if (leads_[l]->up && !leads_[l]->closing) alive.push_back(l);
  }
  if (alive.empty()) return std::nullopt;
  return alive.size() == 1 ? alive[0] : alive[chance_.Draw(alive.size())];
}

// Begins with empty memory, or in the process of the previous generation.
void FaultyCluster::StartLead(EarlierLife earlier) {
  // `sluice train` passes the run's id to the lead that it starts again.
  if (!leads_.empty()) earlier.run.id = kRunId;
  ++looking_;
  LookForRecovery({earlier, std::make_shared<FaultyReads>(chance_.DrawReads()),
                   StorageRetry(kStorageTimeout, Now())});
}

void FaultyCluster::LookForRecovery(const Look& look) {
  const auto found =
      FindRecovery(job_, run_dir_, look.earlier.run, look.disk.get());
  if (absl::IsUnavailable(found.status())) {
    Expect(look.disk->failed() > 0, found.status().ToString());
    Look again = look;
    const auto pause = again.retry.PauseAfter(found.status(), Now());
    if (pause.has_value()) {
      return After(absl::ToInt64Nanoseconds(*pause),
                   [again, this] { LookForRecovery(again); });
    }
    // The process exits, and is started again.
    --looking_;
    ++chance_.counts.reads_given_up;
    return After(chance_.DrawTime(absl::Milliseconds(50), absl::Seconds(1)),
                 [this] {
                   if (!LeadIsUp() && looking_ == 0) StartLead({});
                 });
  }
  if (!found.ok()) return Expect(false, found.status().ToString());
  if (found->has_value()) lineage_.Resumes(**found, logs_are_whole_);
  // Another process may take the generation first.
  After(chance_.DrawTime(absl::ZeroDuration(), absl::Milliseconds(50)),
        [=, this, found = *found, recovery = look.earlier.recovery] {
          TakeGeneration(found, recovery);
        });
}

void FaultyCluster::TakeGeneration(const Found& found,
                                   const RecoveryOptions& recovery) {
  --looking_;
  CoordinatorOptions options = options_;
  options.grant_secret =
      absl::StrCat(options_.grant_secret, " ", leads_.size());
  GenerationStart start =
      BeginGeneration(found, recovery, /*recoverable=*/true, &options);
  start.run_id = kRunId;
  auto files = RunFiles::Create(job_, start, run_dir_);
  if (absl::IsAlreadyExists(files.status()) ||
      absl::IsPermissionDenied(files.status())) {
    ++chance_.counts.races;
    return;
  }
  if (!files.ok()) return Expect(false, files.status().ToString());
  if (found.has_value()) {
    chance_.counts.passed_over += std::ssize(found->passed_over);
    ++(start.restored > Version(0) ? chance_.counts.resumed
                                   : chance_.counts.begun_again);
  }
  const size_t l = leads_.size();
  const bool alone = !LeadIsUp() && looking_ == 0;
  leads_.push_back(std::make_unique<Lead>(options, Now()));
  Lead& lead = *leads_.back();
  lead.files = *std::move(files);
  lead.branch = &lineage_.Begin(options);
  lead.last_culprit = queue_.now();
  // Peers that reach the other coordinator by mistake are rejected by it, and a
  // second process of a shard ends the generation of the first.
  lead.disturbed = !alone || SomeShardIsDoubled();
  lead.synced =
      std::filesystem::file_size(CommitLogPath(run_dir_, options.generation));
  TickAndAgain(l);
}

// The generation is over. The lead serves no peer any more and writes what is
// left to write.
void FaultyCluster::EndLead(size_t l) {
  Lead& lead = *leads_[l];
  Expect(lead.disturbed,
         absl::StrCat("a generation that nobody disturbs goes on: ",
                      lead.sessions.State(Now()).message));
  lead.closing = true;
  HangUp(l);
  CloseLead(l);
}

void FaultyCluster::CloseLead(size_t l) {
  At(IdOf(l), chance_.DrawTime(absl::Milliseconds(1), absl::Milliseconds(200)),
     [this, l] {
       Lead& lead = *leads_[l];
       if (!lead.orders.empty()) return CloseLead(l);
       const auto closed =
           lead.files->Close(lead.sessions.State(Now()), lead.finish());
       const bool anothers = l + 1 < leads_.size();
       Expect(closed.ok() || (anothers && absl::IsPermissionDenied(closed)),
              closed.ToString());
       lead.up = false;
       lead.files.reset();
       const auto next = AfterGeneration(
           *lead.end(), lead.sessions.State(Now()).stop_requested);
       if (next.ok() && next->has_value()) {
         ++chance_.counts.leads_in_place;
         return StartLead(**next);
       }
       chance_.counts.superseded += absl::IsPermissionDenied(next.status());
       // The process exits. If the run has failed, a person starts it again.
       After(chance_.DrawTime(absl::Milliseconds(50), absl::Seconds(1)),
             [this] {
               if (!LeadIsUp() && looking_ == 0) StartLead({});
             });
     });
}

void FaultyCluster::KillLead(size_t l) {
  Lead& dead = *leads_[l];
  const auto& finish = dead.finish();
  if (finish.has_value() && finish->failure.empty()) {
    // The run is over, even for peers that have not been told.
    ended_ = l;
    return;
  }
  ++chance_.counts.lead_kills;
  const FaultyFiles::Fault death = chance_.DrawDeath();
  if (!dead.orders.empty()) {
    ++chance_.counts.torn_writes;
    FaultyFiles disk(death, static_cast<int>(chance_.Draw(8)));
    DoOrder(l, &disk).IgnoreError();
  }
  dead.up = false;
  const std::string log = dead.files->log()->path();
  dead.files.reset();
  if (death == FaultyFiles::Fault::kPowerLost ||
      death == FaultyFiles::Fault::kPowerLostAfterNames) {
    const auto size = static_cast<int64_t>(std::filesystem::file_size(log));
    const int64_t left = dead.synced + chance_.Draw(size - dead.synced + 1);
    std::filesystem::resize_file(log, left);
    logs_are_whole_ = false;
  }
  HangUp(l);
  After(chance_.DrawTime(absl::Milliseconds(100), absl::Seconds(3)), [this] {
    if (!LeadIsUp() && looking_ == 0) StartLead({});
  });
}

// The coordinator stops serving. Its peers notice soon, or by its silence.
void FaultyCluster::HangUp(size_t l) {
  for (const Process& process : processes_) {
    if (!process.life.has_value()) continue;
    const auto connection = process.life->connection;
    if (connection == nullptr || connection->lead() != l ||
        chance_.Draw(4) == 0) {
      continue;
    }
    After(chance_.DrawTime(absl::Milliseconds(1), absl::Milliseconds(50)),
          [this, connection] {
            Break(connection, absl::UnavailableError("died"));
          });
  }
}

// ---- Both. ----

// Starts a second process of the same server while the first lives on.
void FaultyCluster::Double(int64_t id) {
  ++chance_.counts.doubles;
  Disturb();
  const VirtualTime most =
      chance_.DrawTime(absl::Milliseconds(100), absl::Seconds(8));
  if (id < 0) {
    const size_t l = -1 - id;
    // The next coordinator does not know what this one still decides.
    logs_are_whole_ = false;
    // It looks for the next coordinator's log, and may not see it.
    if (chance_.Draw(2) == 0) leads_[l]->blind_until = queue_.now() + most;
    StartLead({});
    // Sometimes two new ones start at once.
    if (chance_.Draw(2) == 0) StartLead({});
    At(id, most, [this, l] { KillLead(l); });
    return;
  }
  const auto index = static_cast<size_t>(id);
  if (NewestOf(processes_[index].peer.id) != index) return;
  // The first one is cut off, which is the reason for starting another.
  for (size_t l = 0; l < leads_.size(); ++l) {
    partitioned_until_[std::minmax<int64_t>(id, IdOf(l))] = queue_.now() + most;
  }
  StartShard(processes_[index].peer.id);
  // In whatever state it is by then.
  After(most, [this, index] {
    if (processes_[index].up) KillShard(index);
  });
}

// From now on the current generations may fail.
void FaultyCluster::Disturb() {
  for (const auto& lead : leads_) {
    if (lead->up) lead->disturbed = true;
  }
}

}  // namespace sluice

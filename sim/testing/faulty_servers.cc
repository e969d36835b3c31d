// Lives of shards and coordinators: how they begin, die, and are two at once.
#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/storage_retry.h"
#include "ps_server/coordinator/generations.h"
#include "sim/testing/faulty_cluster.h"

namespace sluice {
namespace {

constexpr absl::Duration kStorageTimeout = absl::Seconds(3);
constexpr char kRunId[] = "simulated";

// The time of somebody who waits while nothing else happens.
class OwnClock final : public Clock {
 public:
  explicit OwnClock(absl::Time now) : now_(now) {}
  absl::Time Now() override { return now_; }
  void Advance(absl::Duration by) { now_ += by; }

 private:
  absl::Time now_;
};

}  // namespace

// A process that looks for where to go on.
struct FaultyCluster::Look {
  EarlierLife earlier;
  std::shared_ptr<FaultyReads> disk;
  StorageRetry retry;
};

// ---- Shards. ----

// Another process, with nothing in its memory.
void FaultyCluster::StartShard(int64_t shard) {
  newest_[shard] = processes_.size();
  processes_.emplace_back().peer = {Role::kShard, shard};
  Start(newest_[shard]);
}

std::unique_ptr<Shard> FaultyCluster::NewShard(int64_t shard) {
  ShardOptions options =
      ReferenceWeights::OptionsOf(layout_, shard, options_.staged_gradients);
  // As ShardServer does it; takes no virtual time.
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

// While two copies live, some still talk to the older one.
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

// While two live, some reach the older one.
std::optional<size_t> FaultyCluster::ReachLead() {
  std::vector<size_t> alive;
  for (size_t l = 0; l < leads_.size(); ++l) {
    if (leads_[l]->up && !leads_[l]->closing) alive.push_back(l);
  }
  if (alive.empty()) return std::nullopt;
  return alive.size() == 1 ? alive[0] : alive[chance_.Draw(alive.size())];
}

// A process with nothing in its memory, or one that goes on in place.
void FaultyCluster::StartLead(EarlierLife earlier) {
  // As `sluice train` gives it to the lead that it starts again.
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
    // The process ends, and is started again.
    --looking_;
    ++chance_.counts.reads_given_up;
    return After(chance_.DrawTime(absl::Milliseconds(50), absl::Seconds(1)),
                 [this] {
                   if (!LeadIsUp() && looking_ == 0) StartLead({});
                 });
  }
  if (!found.ok()) return Expect(false, found.status().ToString());
  if (found->has_value()) lineage_.Resumes(**found, logs_are_whole_);
  // Somebody else may be faster.
  After(chance_.DrawTime(absl::ZeroDuration(), absl::Milliseconds(50)),
        [=, this, found = *found, recovery = look.earlier.recovery] {
          TakeGeneration(found, recovery);
        });
}

void FaultyCluster::TakeGeneration(const Found& found,
                                   const RecoveryOptions& recovery) {
  --looking_;
  CoordinatorOptions options = options_;
  options.grant_secret = options_.grant_secret + leads_.size();
  GenerationStart start =
      BeginGeneration(found, recovery, /*recoverable=*/true, &options);
  start.run_id = kRunId;
  auto files = RunFiles::Create(job_, start, run_dir_);
  if (absl::IsAlreadyExists(files.status())) {
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
  leads_.push_back(std::make_unique<Lead>(options, job_.fingerprint, Now()));
  Lead& lead = *leads_.back();
  lead.files = *std::move(files);
  lead.branch = &lineage_.Begin(options);
  lead.last_culprit = queue_.now();
  // Whoever reaches the other one by mistake is sent away by it; and of two
  // copies of a shard the second one ends the generation of the first.
  lead.disturbed = !alone || SomeShardIsDoubled();
  lead.synced =
      std::filesystem::file_size(CommitLogPath(run_dir_, options.generation));
  TickAndAgain(l);
}

// Its generation is over. Nobody is served any more, and what is to be written
// is.
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
       // The process ends. Where the run has failed a person starts it again.
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
    // The run is over, whoever has not heard of it.
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

// A coordinator serves nobody any more: its peers hear of it soon, or by its
// silence.
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

// Another one takes the place of one that lives on for a while.
void FaultyCluster::Double(int64_t id) {
  ++chance_.counts.doubles;
  Disturb();
  const VirtualTime most =
      chance_.DrawTime(absl::Milliseconds(100), absl::Seconds(8));
  if (id < 0) {
    const size_t l = -1 - id;
    // What it still decides, the next one does not know of.
    logs_are_whole_ = false;
    // It looks for the next one's log, and may not find it.
    if (chance_.Draw(2) == 0) leads_[l]->blind_until = queue_.now() + most;
    StartLead({});
    // Or two at once.
    if (chance_.Draw(2) == 0) StartLead({});
    At(id, most, [this, l] { KillLead(l); });
    return;
  }
  const auto index = static_cast<size_t>(id);
  if (NewestOf(processes_[index].peer.id) != index) return;
  // It is cut off: that is why there is another one.
  for (size_t l = 0; l < leads_.size(); ++l) {
    partitioned_until_[std::minmax<int64_t>(id, IdOf(l))] = queue_.now() + most;
  }
  StartShard(processes_[index].peer.id);
  // Whatever it has become by then.
  After(most, [this, index] {
    if (processes_[index].up) KillShard(index);
  });
}

// From now on it is no wonder if a generation that is under way fails.
void FaultyCluster::Disturb() {
  for (const auto& lead : leads_) {
    if (lead->up) lead->disturbed = true;
  }
}

}  // namespace sluice

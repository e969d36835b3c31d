// Lives of shards and coordinators: how they begin, die, and are two at once.
#include <algorithm>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "ps_server/coordinator/generations.h"
#include "sim/testing/faulty_cluster.h"

namespace sluice {

// ---- Shards. ----

void FaultyCluster::StartShard(int64_t shard) {
  if (ended_before_) return;
  ShardOptions options =
      ReferenceWeights::OptionsOf(layout_, shard, options_.staged_gradients);
  options.stored_version = [this](const Restore& of, ParameterRange range) {
    return ReadStoredVersion(job_, run_dir_, of, range);
  };
  newest_[shard] = processes_.size();
  Process& process = processes_.emplace_back();
  process.peer = {Role::kShard, shard};
  process.shard = std::make_unique<Shard>(std::move(options));
  Start(newest_[shard]);
}

// While two copies live, some still talk to the older one.
std::optional<size_t> FaultyCluster::Reach(int64_t shard) {
  std::vector<size_t> alive;
  for (size_t i = options_.workers; i < processes_.size(); ++i) {
    if (processes_[i].up && processes_[i].peer.id == shard) alive.push_back(i);
  }
  if (alive.empty()) return std::nullopt;
  return alive.size() == 1 ? alive[0] : alive[Draw(alive.size())];
}

void FaultyCluster::KillShard(size_t index) {
  Process& dead = processes_[index];
  ++counts_.shard_kills;
  Disturb();
  if (dead.writing.has_value()) {
    ++counts_.torn_writes;
    FaultyFiles disk(DrawDeath(), static_cast<int>(Draw(8)));
    WriteHeld(dead, &disk).IgnoreError();
  }
  dead.up = false;
  ++dead.life;
  dead.writing.reset();
  dead.reads.clear();
  const auto connection = std::exchange(dead.connection, nullptr);
  if (Draw(2) == 0 && connection != nullptr) {
    After(DrawTime(absl::Milliseconds(1), absl::Milliseconds(50)),
          [this, connection] { Break(connection, absl::OkStatus()); });
  }
  const int64_t shard = dead.peer.id;
  After(DrawTime(absl::Milliseconds(100), absl::Seconds(8)),
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
    if (leads_[l]->up) alive.push_back(l);
  }
  if (alive.empty()) return std::nullopt;
  return alive.size() == 1 ? alive[0] : alive[Draw(alive.size())];
}

void FaultyCluster::StartLead() {
  const std::vector<Generation> taken = ListGenerations(run_dir_);
  if (taken.empty()) {
    Resumption first;
    first.generation = Generation(1);
    return TakeGeneration(first);
  }
  auto found = FindResumption(job_, run_dir_);
  if (absl::IsFailedPrecondition(found.status())) {
    Expect(absl::StrContains(found.status().message(), "is the run's end"),
           found.status().ToString());
    ended_before_ = true;
    return;
  }
  lineage_.Resumes(found, logs_are_whole_);
  if (!found.ok()) {
    // There is no whole checkpoint: from version 0 again.
    found.emplace().generation = taken.back() + 1;
    found->point.snapshot.totals.gradients.lost =
        SumUp(run_dir_, &found->passed_over).tasks;
  }
  // Somebody else may be faster.
  After(DrawTime(absl::ZeroDuration(), absl::Milliseconds(50)),
        [this, found = *found] { TakeGeneration(found); });
}

void FaultyCluster::TakeGeneration(const Resumption& found) {
  const GenerationStart start{found.generation, found.point.generation,
                              found.point.version};
  CoordinatorOptions options = options_;
  if (start.generation > Generation(1)) options.resume = found.point;
  options.generation = start.generation;
  options.grant_secret = options_.grant_secret + leads_.size();
  for (const CheckpointId& id : ListCheckpoints(run_dir_)) {
    options.checkpoints.there.emplace_back(id.generation, id.version);
  }
  auto files = RunFiles::Create(job_, start, run_dir_);
  if (absl::IsAlreadyExists(files.status())) {
    ++counts_.races;
    return;
  }
  if (!files.ok()) return Expect(false, files.status().ToString());
  counts_.passed_over += std::ssize(found.passed_over);
  if (start.generation > Generation(1)) {
    ++(start.restored > Version(0) ? counts_.resumed : counts_.begun_again);
  }
  const size_t l = leads_.size();
  const bool alone = !LeadIsUp();
  leads_.push_back(std::make_unique<Lead>(options, job_.fingerprint, Now()));
  Lead& lead = *leads_.back();
  lead.files = *std::move(files);
  lead.branch = &lineage_.Begin(options);
  lead.last_culprit = queue_.now();
  // Whoever reaches the other one by mistake is sent away by it.
  lead.disturbed = !alone;
  lead.synced =
      std::filesystem::file_size(CommitLogPath(run_dir_, options.generation));
  TickAndAgain(l);
}

void FaultyCluster::EndLead(size_t l) {
  Lead& lead = *leads_[l];
  Expect(lead.disturbed, absl::StrCat("a run that nobody disturbs goes on: ",
                                      lead.finish()->failure));
  lead.up = false;
  lead.files.reset();
  After(DrawTime(absl::Milliseconds(50), absl::Seconds(1)), [this] {
    if (!LeadIsUp()) StartLead();
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
  ++counts_.lead_kills;
  const FaultyFiles::Fault death = DrawDeath();
  if (!dead.orders.empty()) {
    ++counts_.torn_writes;
    FaultyFiles disk(death, static_cast<int>(Draw(8)));
    DoOrder(l, &disk).IgnoreError();
  }
  dead.up = false;
  dead.files.reset();
  if (death == FaultyFiles::Fault::kPowerLost ||
      death == FaultyFiles::Fault::kPowerLostAfterNames) {
    const std::string log = CommitLogPath(run_dir_, dead.options.generation);
    const auto size = static_cast<int64_t>(std::filesystem::file_size(log));
    const int64_t left = dead.synced + Draw(size - dead.synced + 1);
    std::filesystem::resize_file(log, left);
    logs_are_whole_ = false;
  }
  // Its peers hear of it at once, or by its silence.
  for (Process& process : processes_) {
    const auto connection = process.connection;
    if (connection == nullptr || connection->lead() != l || Draw(4) == 0) {
      continue;
    }
    After(DrawTime(absl::Milliseconds(1), absl::Milliseconds(50)),
          [this, connection] {
            Break(connection, absl::UnavailableError("died"));
          });
  }
  After(DrawTime(absl::Milliseconds(100), absl::Seconds(3)), [this] {
    if (!LeadIsUp()) StartLead();
  });
}

// ---- Both. ----

// Another one takes the place of one that lives on for a while.
void FaultyCluster::Double(int64_t id) {
  ++counts_.doubles;
  Disturb();
  const VirtualTime most = DrawTime(absl::Milliseconds(100), absl::Seconds(8));
  if (id < 0) {
    const size_t l = -1 - id;
    // What it still decides, the next one does not know of.
    logs_are_whole_ = false;
    StartLead();
    // Or two at once.
    if (Draw(2) == 0) StartLead();
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
  At(id, most, [this, index] { KillShard(index); });
}

// From now on it is no wonder if a generation that is under way fails.
void FaultyCluster::Disturb() {
  for (const auto& lead : leads_) {
    if (lead->up) lead->disturbed = true;
  }
}

FaultyFiles::Fault FaultyCluster::DrawDeath() {
  if (Draw(1000) >= static_cast<uint64_t>(faults_.power)) {
    return FaultyFiles::Fault::kKilled;
  }
  ++counts_.power_losses;
  return Draw(2) == 0 ? FaultyFiles::Fault::kPowerLost
                      : FaultyFiles::Fault::kPowerLostAfterNames;
}

}  // namespace sluice

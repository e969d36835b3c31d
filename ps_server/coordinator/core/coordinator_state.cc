// What a status page shows.
//
// Leases and deadlines run on awake time, people on the clock on the wall: an
// awake time is shown with the pauses so far added.
//
// WaitingFor names one culprit, the one to look at first. While training runs
// that is who is missing for an update; then who cannot reach somebody; then
// the shard that keeps the commit window shut. Where some workers compute and
// others have nothing to do, those that have computed for long are named; where
// nobody computes, what keeps them idle.
#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/job/group.h"
#include "ps_server/coordinator/core/coordinator.h"

namespace sluice {
namespace {

// "group 1, slot 2"; empty: groups have one slot.
std::string PlaceOf(const proto::Job& job, WorkerId worker) {
  if (SlotsOf(job) == 1) return "";
  return absl::StrCat("group ", GroupOf(job, worker), ", slot ",
                      SlotOf(job, worker));
}

}  // namespace

JobState Coordinator::State(absl::Time now) const {
  JobState state;
  state.phase = phase_;
  state.message = message_;
  state.stop_requested = stop_requested_;
  state.generation = options_.generation;
  state.version = std::max(stream_.decided(), begins_.version);
  state.counters = stats_.counters();
  state.epoch =
      static_cast<double>(stats_.samples_applied()) / options_.train_samples;
  state.progress = Progress(now);
  state.loss = stats_.loss();
  state.learning_rate = stats_.learning_rate();
  state.k = policy_.k();
  state.logged = stats_.logged();
  state.checkpoints = StateOfCheckpoints();
  state.last_evaluation = last_evaluation_;
  state.final_evaluation = final_evaluation_;
  if (options_.generation > Generation(1)) {
    state.recovery =
        RecoveryState{begins_.version, options_.recovery.updates_lost,
                      options_.recovery.reason};
  }
  if (started_.has_value()) {
    state.started = *started_;
  }
  state.running = Running(now);
  state.mean_staleness = stats_.mean_staleness();
  state.staleness_histogram = stats_.staleness_histogram();
  state.task_times = stats_.task_times();
  for (const auto& [peer, member] : members_.members()) {
    // Shown in real time; leases run on awake time.
    const absl::Time heard = member.last_heard + clock_.paused();
    switch (peer.role) {
      case Role::kWorker:
        state.workers.push_back(
            {WorkerId(peer.id), member.life,
             tasks_.LiveOf(WorkerId(peer.id)) != nullptr, member.incarnation,
             heard, stats_.GradientsOf(WorkerId(peer.id)), member.process,
             member.counters, member.members, member.last_loss,
             PlaceOf(job_, WorkerId(peer.id)),
             peer.id >= job_.cluster().workers()});
        break;
      case Role::kShard:
        state.shards.push_back(
            {ShardId(peer.id), member.life, stream_.VersionOf(ShardId(peer.id)),
             heard, member.address, member.process, member.counters});
        break;
      case Role::kEvaluator:
        state.evaluator = member.life;
        break;
    }
  }
  std::tie(state.waiting_for, state.waiting_since) = WaitingFor();
  return state;
}

std::pair<std::string, absl::Time> Coordinator::WaitingFor() const {
  const absl::Duration paused = clock_.paused();
  if (over()) return {"", absl::Time()};
  auto cut_off = members_.CutOff();
  cut_off.second += paused;
  if (phase_ == Phase::kStarting) {
    const std::string missing = MissingPeers();
    const bool both = !missing.empty() && !cut_off.first.empty();
    return {absl::StrCat(missing, both ? ", " : "", cut_off.first), created_};
  }
  if (phase_ == Phase::kRunning) {
    if (short_since_.has_value()) {
      return {DescribeShortage(), *short_since_ + paused};
    }
    if (!cut_off.first.empty()) return cut_off;
    if (!stream_.WindowOpen()) {
      return {
          absl::StrCat("shard ", stream_.slowest().value(),
                       " to apply version ", stream_.executed().value() + 1),
          stream_.waiting_since() + paused};
    }
    return tasks_.AnyLive() ? StragglersWaitedFor() : IdlersWaitFor();
  }
  if (!cut_off.first.empty()) return cut_off;
  if (evaluations_.running().has_value()) {
    return {absl::StrCat("evaluator to evaluate version ",
                         evaluations_.running()->version.value()),
            evaluations_.running()->since + paused};
  }
  if (job_.evaluation().enabled() && !evaluations_.final_done()) {
    return {"evaluator", finishing_since_ + paused};
  }
  if (checkpoints_.running().has_value()) {
    return {absl::StrCat(StoringWaitsFor(), " to store version ",
                         checkpoints_.running()->version.value()),
            checkpoints_.running()->since + paused};
  }
  return {absl::StrCat("shard ", stream_.slowest().value()),
          finishing_since_ + paused};
}

// Who has had a task for so long that a person wants to know, while a living
// worker has none.
std::pair<std::string, absl::Time> Coordinator::StragglersWaitedFor() const {
  constexpr absl::Duration kLong = absl::Seconds(1);
  constexpr size_t kNamed = 3;
  const std::vector<const OpenTask*> slow = tasks_.LiveSince(awake_ - kLong);
  const auto idle = [this](const auto& entry) {
    const auto& [peer, member] = entry;
    return peer.role == Role::kWorker && member.life == PeerLife::kAlive &&
           tasks_.LiveOf(WorkerId(peer.id)) == nullptr;
  };
  const auto& members = members_.members();
  if (slow.empty() || std::none_of(members.begin(), members.end(), idle)) {
    return {"", absl::Time()};
  }
  std::string names;
  for (size_t i = 0; i < slow.size() && i < kNamed; ++i) {
    absl::StrAppend(&names, i == 0 ? "worker " : ", worker ",
                    slow[i]->task.key.worker.value());
  }
  if (slow.size() > kNamed) {
    absl::StrAppend(&names, " and ", slow.size() - kNamed, " more");
  }
  return {absl::StrCat(names, " to compute"),
          slow.front()->opened + clock_.paused()};
}

// Nobody has a task although the run is not over.
std::pair<std::string, absl::Time> Coordinator::IdlersWaitFor() const {
  const absl::Duration paused = clock_.paused();
  // Room comes back when every shard has executed what frees it.
  if (!stream_.idle()) {
    return {absl::StrCat("shard ", stream_.slowest().value(),
                         " to execute decision ", stream_.acknowledged() + 1),
            stream_.waiting_since() + paused};
  }
  for (const auto& [peer, member] : members_.members()) {
    if (peer.role == Role::kWorker && member.life == PeerLife::kSuspect) {
      return {absl::StrCat(peer.ToString(), " to reconnect"),
              member.last_heard + paused};
    }
  }
  return {"", absl::Time()};
}

// How long training has gone on; 0 before it begins.
absl::Duration Coordinator::Running(absl::Time now) const {
  const absl::Duration before = begins_.snapshot.running;
  if (!started_.has_value()) return before;
  return before + ((phase_ == Phase::kRunning ? now : ended_) - *started_);
}

TrainingSnapshot Coordinator::TakeSnapshot(absl::Time now) const {
  TrainingSnapshot snapshot;
  snapshot.schedule = schedule_.TakeSnapshot();
  snapshot.round = std::min(round_, BlockId(schedule_.total()));
  snapshot.k = policy_.k_state();
  snapshot.totals = stats_.TotalsOfUpdate();
  snapshot.evaluation_due =
      evaluations_.due() || evaluations_.running().has_value();
  snapshot.running = Running(now);
  return snapshot;
}

double Coordinator::Progress(absl::Time now) const {
  if (phase_ == Phase::kStarting) return 0;
  if (phase_ != Phase::kRunning) return 1;
  double progress = 0;
  const proto::Stop& stop = job_.stop();
  if (stop.has_epochs() && schedule_.total() > 0) {
    progress = static_cast<double>(schedule_.done()) / schedule_.total();
  }
  if (stop.has_updates() && stop.updates() > 0) {
    progress =
        std::max(progress, static_cast<double>(stream_.decided().value()) /
                               stop.updates());
  }
  if (stop.has_seconds()) {
    progress = std::max(
        progress,
        absl::FDivDuration(Running(now), absl::Seconds(stop.seconds())));
  }
  return std::min(progress, 1.0);
}

}  // namespace sluice

// Who comes and goes, and what follows from every event.
//
// A Turn handles one event: its method changes the parts, and Settle() then
// does all that follows. What holds between turns, while training runs:
//
//  - Nothing is left to do: no update is due while the commit window is open,
//    and no worker that may start goes without a task while there are room and
//    a mini-batch.
//  - The parts agree on each task. From IssueTask to EndTask or CloseUpdate it
//    is in tasks_; for as long, its block is live or held in schedule_; while
//    it is live, its worker is busy in policy_. Its room in stream_ is taken
//    until every shard has executed its end.
//  - Actions come in the order in which they must happen: what is recorded
//    stands before what makes it known.
//
// SYNC with two workers, one of which falls silent with a task:
//
//   Tick     ExpireLeases finds worker 1 and emits EndSession; WorkerLost ends
//            its task (RecordEnd, Discard), and its block goes back.
//   Settle   AssignTasks gives the block, which is the lowest, to worker 0 as
//            soon as that may start (RecordTask, SendTask). The update is made
//            of the same mini-batches as if nobody had died.
#include "ps_server/coordinator/core/coordinator.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "common/job/any_number.h"
#include "common/job/job_counts.h"
#include "common/job/job_learning_rate.h"
#include "common/status_macros.h"
#include "common/telemetry/log_value.h"

namespace sluice {
namespace {

Membership::Options MembershipOptions(const proto::Job& job) {
  Membership::Options result;
  result.workers = job.cluster().workers();
  result.shards = job.cluster().shards();
  result.evaluator = job.evaluation().enabled();
  result.max_workers = job.cluster().max_workers();
  result.lease = absl::Seconds(job.limits().lease_s());
  return result;
}

// Gradients that may be under way at once: as many as shards have room for,
// unless these give it out themselves, in turns.
int TasksWithRoom(const proto::Job& job) {
  if (!FoldsGradients(job)) return job.limits().staged_gradients();
  return MostGradientsPerUpdate(job.sync()) + MostWorkers(job.cluster());
}

// Only SYNC promises the same bits whoever computes what; the other policies
// depend on who is faster in any case, and there a cluster of different
// machines is of use.
std::set<std::string> InputsThatMayDiffer(proto::Policy policy) {
  if (policy == proto::SYNC) return {};
  return {"device"};
}

// 0: none but the final one.
double EvaluateEverySamples(const CoordinatorOptions& options) {
  const proto::Evaluation& evaluation = options.job.evaluation();
  if (!evaluation.enabled()) return 0;
  return SamplesOfEpochs(evaluation.every_epochs(), options.train_samples);
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, absl::Time now)
    : options_(std::move(options)),
      job_(options_.job),
      learning_rate_(JobLearningRate(job_, options_.train_samples)),
      grid_(JobGrid(job_, options_.train_samples)),
      created_(now),
      begins_(options_.resume.value_or(ResumePoint())),
      now_(now),
      awake_(now),
      clock_(options_.tick, now),
      members_(MembershipOptions(job_)),
      agreement_(InputsThatMayDiffer(job_.sync().policy()), options_.inputs),
      instructions_(options_.instruction_set,
                    /*exact=*/job_.sync().policy() == proto::SYNC),
      schedule_(
          JobSchedule(job_, options_.train_samples, begins_.snapshot.schedule)),
      policy_(job_.sync(), job_.cluster().workers(), grid_.partitions()),
      tasks_(options_.generation),
      stream_(job_.cluster().shards(), TasksWithRoom(job_),
              job_.limits().commit_window()),
      evaluations_(EvaluateEverySamples(options_),
                   begins_.snapshot.evaluation_due),
      checkpoints_(job_.checkpoint(), options_.earlier_checkpoints,
                   options_.generation, job_.cluster().shards(), now),
      stats_(begins_.snapshot.totals),
      stop_requested_(options_.recovery.stop),
      evaluator_lost_(now) {
  if (grid_.partitions() > 1) {
    for (int p = 0; p < grid_.partitions(); ++p) unserved_.insert(p);
  }
  if (FoldsGradients(job_)) fold_.emplace();
  policy_.Restore(begins_.version, begins_.snapshot.k);
  BeginRound(begins_.snapshot.round);
  RefreshAllSupplies();
}

Coordinator::Turn::Turn(Coordinator* of, absl::Time now, Actions* out,
                        bool is_tick)
    : of_(*of) {
  of_.now_ = now;
  of_.awake_ = of_.clock_.Advance(now, is_tick);
  of_.out_ = out;
  for (Action& said : std::exchange(of_.unsaid_, {})) of_.Emit(std::move(said));
}

void Coordinator::Settle() {
  MaybeStart();
  AgreeOnInstructions();
  CheckStop();
  if (phase_ == Phase::kRunning) {
    DecideUpdates();
    DecideFold();
    MaybeEvaluate();
    AssignTasks();
    WatchShortage();
  }
  DecideDiscard();
  ProgressFinish();
}

absl::StatusOr<Coordinator::JoinReply> Coordinator::Join(
    const JoinRequest& request, absl::Time now, Actions* out) {
  const Turn turn(this, now, out);
  if (phase_ == Phase::kRecovering) {
    return absl::UnavailableError(
        absl::StrCat("generation ", options_.generation.value(),
                     " is over, the next one follows: ", message_));
  }
  if (over()) {  // Whoever asks again is told so, once its result is kept.
    return absl::UnavailableError(absl::StrCat("the run is over: ", message_));
  }
  Peer peer = request.peer;
  if (request.any_number) {
    SLUICE_RETURN_IF_ERROR(CheckAnyNumber(job_));
    SLUICE_ASSIGN_OR_RETURN(
        peer.id, members_.FreeWorker(peer.id, request.process, awake_));
  }
  const absl::Status agrees = agreement_.Check(peer, request.inputs);
  if (!agrees.ok()) return agrees;
  SLUICE_RETURN_IF_ERROR(instructions_.Check(peer, request.instruction_set));
  absl::StatusOr<Membership::Joined> joined =
      members_.Join(peer, request.resume, request.address, request.process,
                    awake_, request.members);
  if (!joined.ok()) return joined.status();
  if (joined->resumed) {
    if (peer.role == Role::kWorker) {
      policy_.SetSuspect(WorkerId(peer.id), false);
    }
  } else {
    if (joined->replaced.has_value()) {
      Emit(EndSession{peer, *joined->replaced, "restarted"});
      PeerLost(peer, "restarted");
    }
    Say(Announce::Level::kInfo,
        absl::StrCat("event=joined peer=", LogValue(peer.ToString()),
                     " incarnation=", joined->incarnation.value(),
                     " process=", LogValue(request.process)));
    if (peer.role == Role::kWorker) {
      unserved_.erase(static_cast<int>(peer.id));
      policy_.WorkerJoined(WorkerId(peer.id));
    }
  }
  instructions_.Joined(peer, request.instruction_set);
  for (const std::string& difference :
       agreement_.Joined(peer, request.inputs)) {
    Say(Announce::Level::kWarning,
        absl::StrCat("event=inputs_differ what=", LogValue(difference)));
  }
  return JoinReply{peer, options_.generation, joined->incarnation,
                   joined->resumed};
}

absl::Status Coordinator::Heard(Peer peer, Incarnation incarnation,
                                absl::Time now) {
  return members_.Heard(peer, incarnation,
                        clock_.Advance(now, /*is_tick=*/false));
}

void Coordinator::CannotReach(Peer peer, Incarnation incarnation,
                              const std::string& whom,
                              absl::Duration for_so_long, absl::Time now) {
  // What a peer says of itself: not before this coordinator began.
  const absl::Duration since =
      std::clamp(for_so_long, absl::ZeroDuration(), now - created_);
  members_.CannotReach(peer, incarnation, whom,
                       clock_.Advance(now, /*is_tick=*/false) - since);
}

void Coordinator::Disconnected(Peer peer, Incarnation incarnation,
                               absl::Time now, Actions* out) {
  const Turn turn(this, now, out);
  if (!members_.Disconnected(peer, incarnation, awake_)) return;
  if (!over()) {
    Say(Announce::Level::kWarning,
        absl::StrCat("event=suspect peer=", LogValue(peer.ToString()),
                     " reason=\"its connection broke\""));
  }
  if (peer.role == Role::kWorker) policy_.SetSuspect(WorkerId(peer.id), true);
}

void Coordinator::Leave(Peer peer, Incarnation incarnation,
                        const std::string& reason, absl::Time now, Actions* out,
                        bool for_good) {
  const Turn turn(this, now, out);
  if (!members_.Left(peer, incarnation, for_good) || over()) return;
  PeerLost(peer, absl::StrCat("left: ", reason));
}

absl::Status Coordinator::DeathReported(Peer peer, const std::string& process,
                                        const std::string& reason,
                                        absl::Time now, Actions* out) {
  const Turn turn(this, now, out);
  absl::Status valid = members_.CheckPeer(peer);
  if (!valid.ok()) return valid;
  if (over()) return absl::OkStatus();
  std::vector<Peer> died;
  for (const auto& [other, member] : members_.members()) {
    if (other.role == peer.role && member.living() &&
        member.process == process) {
      died.push_back(other);
    }
  }
  for (const Peer& other : died) {
    EndLife(other, absl::StrCat("died: ", reason));
  }
  return absl::OkStatus();
}

// The peer, which lives, is taken for dead.
void Coordinator::EndLife(Peer peer, const std::string& why) {
  const Incarnation incarnation = members_.Get(peer).incarnation;
  members_.Died(peer, incarnation);
  Emit(EndSession{peer, incarnation, absl::StrCat(peer.ToString(), " ", why)});
  PeerLost(peer, why);
}

void Coordinator::Tick(absl::Time now, Actions* out) {
  const Turn turn(this, now, out, /*is_tick=*/true);
  if (over()) return;
  ExpireLeases();
  ExpireTasks();
  CheckDeadlines();
}

void Coordinator::ExpireLeases() {
  for (Peer peer : members_.Expired(awake_)) {
    const Incarnation incarnation = members_.Get(peer).incarnation;
    members_.LeaseOver(peer, incarnation);
    const std::string why = absl::StrCat(
        "died: not heard of for ",
        absl::FormatDuration(absl::Seconds(job_.limits().lease_s())));
    Emit(
        EndSession{peer, incarnation, absl::StrCat(peer.ToString(), " ", why)});
    PeerLost(peer, why);
    if (over()) return;
  }
}

// What follows when a life of `peer` is over; it is so in `members_` already,
// unless the next life has begun.
void Coordinator::PeerLost(Peer peer, const std::string& why) {
  Say(Announce::Level::kWarning,
      absl::StrCat("event=lost peer=", LogValue(peer.ToString()),
                   " reason=", LogValue(why)));
  members_.Lost(peer, why);
  agreement_.Lost(peer);
  instructions_.Lost(peer);
  switch (peer.role) {
    case Role::kWorker:
      return WorkerLost(WorkerId(peer.id), why);
    case Role::kShard:
      // Its slice of the weights is gone with it.
      if (restore_sent_) Recover(absl::StrCat(peer.ToString(), " ", why));
      return;
    case Role::kEvaluator:
      return EvaluatorLost(why);
  }
}

void Coordinator::WorkerLost(WorkerId worker, const std::string& why) {
  policy_.WorkerLost(worker);
  if (grid_.partitions() > 1) {
    unserved_.insert(static_cast<int>(worker.value()));
  }
  // What it has delivered stays eligible, since every shard has it: a task that
  // is ready is no live one.
  const OpenTask* live = tasks_.LiveOf(worker);
  if (live == nullptr) return;
  EndAndReturn(live->task.key, Outcome::kCancelled,
               absl::StrCat("worker ", worker.value(), " ", why));
}

void Coordinator::EvaluatorLost(const std::string& why) {
  evaluator_lost_ = awake_;
  const auto running = evaluations_.GiveUp();
  if (!running.has_value()) return;
  Decide(Release{running->version});
  // The run's end waits for this one, but not for ever. An evaluator that ends
  // with its model process says itself, before that, that it has failed.
  if (running->final && evaluations_.Lost() >= kMostLosses) {
    NotEvaluated(*running,
                 absl::StrCat("given up ", kMostLosses, " times in a row, ",
                              "the last time because the evaluator ", why),
                 /*advice=*/"");
  }
}

void Coordinator::ExpireTasks() {
  for (const GradientKey& key : tasks_.Overdue(awake_)) {
    TaskOverran(key);
    if (over()) return;
  }
}

void Coordinator::Say(Announce::Level level, std::string text) {
  Emit(Announce{level, std::move(text)});
}

}  // namespace sluice

// Start, evaluations, end.
//
//   kStarting --all are here, the shards have their weights--> kRunning
//   kRunning  --a stop condition, or somebody asks-->          kFinishing
//   kFinishing --evaluated, stored, everything executed-->     kFinished
//   kStarting --somebody asks, and there is nothing to keep--> kFinished
//   any of these --what cannot be mended-->                    kFailed
//                --a shard is lost, or what it holds-->        kRecovering
//
// The last three are final (over()): no task is open any more, and nothing more
// is decided. FinishRun or EndGeneration is emitted once, as one of them
// begins.
#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/telemetry/log_value.h"
#include "ps_server/coordinator/core/coordinator.h"
#include "ps_server/coordinator/core/counters.h"

namespace sluice {

bool Coordinator::over() const {
  return phase_ == Phase::kFinished || phase_ == Phase::kFailed ||
         phase_ == Phase::kRecovering;
}

void Coordinator::MaybeStart() {
  if (phase_ != Phase::kStarting) return;
  // There is nothing that could be kept.
  if (stop_requested_.has_value() && !GoesOn()) {
    return Finish("", *stop_requested_);
  }
  if (!restore_sent_ &&
      members_.living(Role::kShard) == job_.cluster().shards()) {
    restore_sent_ = true;
    Decide(Restore{options_.generation, begins_.version, options_.grant_secret,
                   begins_.generation, options_.run_id, begins_.manifest});
  }
  if (!restore_sent_ || !stream_.idle()) return;
  if (!restored_.has_value()) restored_ = awake_;
  if (!MayBegin()) return;
  phase_ = Phase::kRunning;
  agreement_.RunBegins();
  if (Inputs agreed = agreement_.Agreed(); agreed != options_.inputs) {
    Emit(RecordInputs{std::move(agreed)});
  }
  started_ = now_;
  std::string text = absl::StrCat(
      "event=started policy=", proto::Policy_Name(job_.sync().policy()),
      " workers=", members_.living(Role::kWorker),
      " shards=", job_.cluster().shards(),
      " version=", begins_.version.value());
  const std::string missing = members_.Missing(Expected());
  if (!missing.empty()) absl::StrAppend(&text, " missing=", LogValue(missing));
  Say(Announce::Level::kInfo, std::move(text));
}

// With a run that had begun; else everybody is waited for as at its start.
bool Coordinator::GoesOn() const {
  return options_.resume.has_value() && options_.recovery.begun;
}

// Those without whom training does not begin, or at least waits a while.
std::vector<Peer> Coordinator::Expected() const {
  const RecoveryOptions& past = options_.recovery;
  std::vector<Peer> peers;
  // Where none was left, whoever comes does as well as another.
  if (GoesOn() && past.workers.has_value() && !past.workers->empty()) {
    for (WorkerId worker : *past.workers) {
      peers.push_back({Role::kWorker, worker.value()});
    }
  } else {
    for (int64_t w = 0; w < job_.cluster().workers(); ++w) {
      peers.push_back({Role::kWorker, w});
    }
  }
  if (job_.evaluation().enabled() && (past.evaluator || !GoesOn())) {
    peers.push_back({Role::kEvaluator, 0});
  }
  return peers;
}

// With whom a run begins, whichever workers they are.
bool Coordinator::AllHere() const {
  return members_.living(Role::kWorker) >= job_.cluster().workers() &&
         (!job_.evaluation().enabled() ||
          members_.living(Role::kEvaluator) > 0);
}

// Before any task goes out; who has joined waits for it, so as early as may be.
void Coordinator::AgreeOnInstructions() {
  if (over() || (phase_ == Phase::kStarting && !AllHere())) return;
  const auto agreed = instructions_.Agree();
  if (!agreed.has_value()) return;
  Emit(RecordInstructionSet{*agreed});
  Say(Announce::Level::kInfo,
      absl::StrCat("event=instructions_agreed set=",
                   proto::InstructionSet_Name(*agreed)));
}

// The shards have their weights. A run that goes on does so with those who are
// left, after a wait for those who are on their way; what they are too few for
// is a shortage like any other.
bool Coordinator::MayBegin() const {
  if (StopReason().has_value()) return true;  // Nobody needs to compute.
  if (!GoesOn()) return AllHere();
  if (members_.living(Role::kWorker) == 0) return false;
  return members_.Missing(Expected()).empty() ||
         awake_ - *restored_ >=
             absl::Seconds(job_.limits().regroup_timeout_s());
}

// Why the run is to end, if it is, whoever is there.
std::optional<std::string> Coordinator::StopReason() const {
  if (stop_requested_.has_value()) return stop_requested_;
  const proto::Stop& stop = job_.stop();
  const int64_t version = std::max(stream_.decided(), begins_.version).value();
  if (stop.has_updates() && version >= stop.updates()) {
    return absl::StrCat(version, " updates made");
  }
  if (stop.has_seconds() && Running(now_) >= absl::Seconds(stop.seconds())) {
    return absl::StrCat(absl::FormatDuration(absl::Seconds(stop.seconds())),
                        " are over");
  }
  if (schedule_.finished()) return absl::StrCat(stop.epochs(), " epochs done");
  return std::nullopt;
}

void Coordinator::CheckStop() {
  if (phase_ != Phase::kRunning) return;
  const auto reason = StopReason();
  if (reason.has_value()) return BeginFinish(*reason);
  // With SHRINK, partitions that nobody serves are not waited for.
  const bool nothing_comes = tasks_.open() == 0 && StillToCome() == 0 &&
                             members_.living(Role::kWorker) > 0;
  if (!nothing_comes || RoundExhausted()) return;
  const int64_t left = schedule_.total() - schedule_.done();
  stats_.Count(&RunCounters::batches_left_out, left);
  BeginFinish(absl::StrCat(job_.stop().epochs(), " epochs done, but for ", left,
                           " mini-batches that nobody serves"));
}

void Coordinator::BeginFinish(const std::string& reason) {
  phase_ = Phase::kFinishing;
  message_ = reason;
  ended_ = now_;
  finishing_since_ = awake_;
  short_since_.reset();
  Say(Announce::Level::kInfo,
      absl::StrCat("event=finishing version=", stream_.decided().value(),
                   " reason=", LogValue(reason)));
  EndAllTasks(Outcome::kCancelled, absl::StrCat("the run is over: ", reason));
}

// The final version is evaluated, and written, by the evaluator, and stored as
// a checkpoint; then, when every shard has executed everything, all may go.
void Coordinator::ProgressFinish() {
  if (phase_ != Phase::kFinishing) return;
  const bool stored = LastVersionStored();
  if (job_.evaluation().enabled() && !evaluations_.final_done()) {
    const Membership::Member& evaluator = members_.Get({Role::kEvaluator, 0});
    if (evaluations_.running().has_value()) return;
    if (evaluator.life == PeerLife::kAlive) {
      return StartEvaluation(/*final=*/true);
    }
    // As where somebody has ended all processes of a host.
    const bool both_stopped = stop_requested_.has_value() && evaluator.gone;
    const absl::Time since = std::max(finishing_since_, evaluator_lost_);
    if (evaluator.life == PeerLife::kSuspect ||
        (awake_ - since < options_.finish_timeout && !both_stopped)) {
      return;
    }
    Say(Announce::Level::kWarning,
        absl::StrCat("event=not_evaluated version=", stream_.decided().value(),
                     " reason=\"the evaluator ",
                     both_stopped ? "was stopped, too"
                                  : absl::StrCat("did not come back within ",
                                                 absl::FormatDuration(
                                                     options_.finish_timeout)),
                     "\""));
    evaluations_.Skip(/*final=*/true);
  }
  if (!stored || !stream_.idle()) return;
  Finish(failure_at_end_, failure_at_end_.empty() ? message_ : failure_at_end_);
}

void Coordinator::Finish(const std::string& failure,
                         const std::string& reason) {
  if (phase_ != Phase::kFinishing) ended_ = now_;
  phase_ = failure.empty() ? Phase::kFinished : Phase::kFailed;
  message_ = failure.empty() ? reason : failure;
  Say(failure.empty() ? Announce::Level::kInfo : Announce::Level::kError,
      absl::StrCat("event=", failure.empty() ? "finished" : "failed",
                   " version=", stream_.decided().value(),
                   " reason=", LogValue(message_)));
  Emit(FinishRun{failure, reason});
}

void Coordinator::Fail(const std::string& failure) {
  if (over()) return;
  EndAllTasks(Outcome::kCancelled, failure);
  Finish(failure, failure);
}

// The last version was trained, and is stored first.
void Coordinator::FailAtEnd(const std::string& failure) {
  failure_at_end_ = failure;
  evaluations_.Skip(/*final=*/true);
}

// What this generation needs is gone: the next one follows, if one can.
void Coordinator::Recover(const std::string& why) {
  if (over()) return;
  const RecoveryOptions& past = options_.recovery;
  if (!past.possible) return Fail(why);
  const Version newest = std::max(stream_.decided(), begins_.version);
  const bool fruitful =
      newest > past.furthest || checkpoints_.newest().has_value();
  const int fruitless = fruitful ? 0 : past.fruitless + 1;
  if (fruitless >= RecoveryOptions::kMostFruitless) {
    return Fail(absl::StrCat(why, "; ", fruitless,
                             " generations in a row have come no further than "
                             "version ",
                             past.furthest.value()));
  }
  EndAllTasks(Outcome::kLost, absl::StrCat("its generation is over: ", why));
  if (phase_ != Phase::kFinishing) ended_ = now_;
  phase_ = Phase::kRecovering;
  message_ = why;
  Say(Announce::Level::kWarning,
      absl::StrCat(
          "event=generation_over generation=", options_.generation.value(),
          " version=", newest.value(), " reason=", LogValue(why)));
  EndGeneration end{why,
                    std::max(newest, past.furthest),
                    fruitless,
                    {begins_.generation, begins_.version}};
  if (const auto stored = checkpoints_.newest()) {
    end.stored = {options_.generation, *stored};
  }
  end.begun = started_.has_value() || GoesOn();
  if (started_.has_value()) {
    end.workers.emplace();
    for (const auto& [peer, member] : members_.members()) {
      if (peer.role != Role::kWorker || !member.living()) continue;
      end.workers->insert(WorkerId(peer.id));
    }
    end.evaluator = members_.living(Role::kEvaluator) > 0;
  } else {
    end.workers = past.workers;
    end.evaluator = past.evaluator;
  }
  Emit(std::move(end));
}

// Where this generation cannot carry it out any more, the next one does.
void Coordinator::RequestStop(const std::string& reason, absl::Time now,
                              Actions* out) {
  const Turn turn(this, now, out);
  if (stop_requested_.has_value()) return;
  stop_requested_ = reason;
  if (phase_ != Phase::kStarting || !GoesOn()) return;
  // The weights that it goes on from are yet to be evaluated.
  Say(Announce::Level::kInfo,
      absl::StrCat("event=stopping reason=", LogValue(reason),
                   " waiting_for=", LogValue(MissingPeers())));
}

// ---- Evaluations ----

// One that was due while the evaluator was busy or away takes the newest
// version.
void Coordinator::MaybeEvaluate() {
  if (phase_ != Phase::kRunning || !evaluations_.ShouldStart()) return;
  if (members_.Get({Role::kEvaluator, 0}).life != PeerLife::kAlive) return;
  StartEvaluation(/*final=*/false);
}

void Coordinator::StartEvaluation(bool final) {
  const Version version = stream_.decided();
  Decide(Pin{version});
  evaluations_.Start(version, final, awake_);
  Emit(SendEvaluate{version, final});
}

void Coordinator::Evaluated(const Evaluation& evaluation, absl::Time now,
                            Actions* out) {
  const Turn turn(this, now, out);
  if (over()) return;
  const auto running = evaluations_.Answer(evaluation.version);
  if (!running.has_value()) return;
  Decide(Release{running->version});
  if (!evaluation.error.empty()) {
    const std::string what =
        absl::StrCat("evaluator: evaluation of version ",
                     evaluation.version.value(), ": ", evaluation.error);
    if (running->final) return FailAtEnd(what);
    return Say(Announce::Level::kWarning,
               absl::StrCat("event=evaluation_failed reason=", LogValue(what)));
  }
  if (running->final) final_evaluation_ = evaluation;
  if (evaluation.samples == 0) return;
  if (!std::isfinite(evaluation.loss)) {
    Say(Announce::Level::kWarning,
        absl::StrCat("event=test_loss_not_finite version=",
                     evaluation.version.value(), " loss=", evaluation.loss));
  }
  last_evaluation_ = evaluation;
  Emit(RecordEvaluation{evaluation});
  const proto::Stop& stop = job_.stop();
  if (phase_ == Phase::kRunning && stop.has_target_accuracy() &&
      evaluation.accuracy.value_or(0) >= stop.target_accuracy()) {
    BeginFinish(absl::StrCat("test accuracy ", *evaluation.accuracy,
                             " reached at version ",
                             evaluation.version.value()));
  }
}

// ---- Deadlines: nothing waits without one, and each names its culprit. ----

std::string Coordinator::MissingPeers() const {
  std::vector<std::string> missing;
  for (std::string names :
       {members_.Missing(Role::kShard),
        // As in MayBegin.
        StopReason().has_value() ? "" : members_.Missing(Expected())}) {
    if (!names.empty()) missing.push_back(std::move(names));
  }
  if (missing.empty() && restore_sent_ && !stream_.idle()) {
    return absl::StrCat("shard ", stream_.slowest().value(),
                        " to load version ", begins_.version.value());
  }
  return absl::StrJoin(missing, ", ");
}

void Coordinator::CheckDeadlines() {
  if (over()) return;
  if (phase_ == Phase::kStarting) {
    // Awake and real time agree on how long others had the chance to join.
    if (awake_ - created_ < absl::Seconds(job_.limits().start_timeout_s()))
      return;
    // Then MayBegin waits only for others, and not for long.
    if (restored_.has_value() && GoesOn() &&
        members_.living(Role::kWorker) > 0) {
      return;
    }
    return Fail(absl::StrCat(
        "waited ",
        absl::FormatDuration(absl::Seconds(job_.limits().start_timeout_s())),
        " for ", MissingPeers()));
  }
  if (short_since_.has_value() &&
      awake_ - *short_since_ >=
          absl::Seconds(job_.sync().shortage_timeout_s())) {
    return Fail(absl::StrCat(
        "waited ",
        absl::FormatDuration(absl::Seconds(job_.sync().shortage_timeout_s())),
        " for workers: ", DescribeShortage()));
  }
  if (!stream_.idle() && awake_ - stream_.waiting_since() >=
                             absl::Seconds(job_.limits().task_deadline_s())) {
    return Fail(absl::StrCat(
        "shard ", stream_.slowest().value(), " has not executed decision ",
        stream_.acknowledged() + 1, " within ",
        absl::FormatDuration(absl::Seconds(job_.limits().task_deadline_s()))));
  }
  CheckStoringDeadline();
  const auto& running = evaluations_.running();
  if (running.has_value() &&
      awake_ - running->since >= DeadlineAfter(evaluations_.overruns())) {
    EvaluationOverran(*running);
  }
}

// Whoever was at it is taken for dead, and is to begin anew; but not for ever.
void Coordinator::EvaluationOverran(Evaluations::Running running) {
  const std::string why =
      absl::StrCat("took longer than ",
                   absl::FormatDuration(DeadlineAfter(evaluations_.overruns())),
                   " for version ", running.version.value());
  const int times = evaluations_.Overrun();
  evaluations_.GiveUp();
  Decide(Release{running.version});
  EndLife({Role::kEvaluator, 0}, why);
  if (times < kMostOverruns) return;
  NotEvaluated(running, absl::StrCat("took ", DescribeOverruns()),
               "; raise limits.task_deadline_s");
}

// It has failed too often.
void Coordinator::NotEvaluated(Evaluations::Running given_up,
                               const std::string& why,
                               const std::string& advice) {
  const std::string what = absl::StrCat("evaluation of version ",
                                        given_up.version.value(), ": ", why);
  if (job_.sync().on_bad_gradient() == proto::FAIL) {
    const std::string failure = absl::StrCat(what, advice);
    return given_up.final ? FailAtEnd(failure) : Fail(failure);
  }
  Say(Announce::Level::kError,
      absl::StrCat("event=not_evaluated version=", given_up.version.value(),
                   " reason=", LogValue(what)));
  evaluations_.Skip(given_up.final);
}

}  // namespace sluice

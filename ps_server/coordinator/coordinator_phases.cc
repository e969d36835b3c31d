// Start, evaluations, end.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ps_server/coordinator/coordinator_impl.h"

namespace sluice {

void Coordinator::Impl::MaybeStart() {
  if (phase_ != Phase::kStarting) return;
  if (!restore_sent_ && members_.living(Role::kShard) == options_.shards) {
    restore_sent_ = true;
    Decide(Restore{options_.generation, begins_.version, options_.grant_secret,
                   begins_.generation});
  }
  if (!restore_sent_ || !stream_.idle()) return;
  if (members_.living(Role::kWorker) < options_.workers) return;
  if (options_.evaluator && members_.living(Role::kEvaluator) == 0) return;
  phase_ = Phase::kRunning;
  agreement_.RunBegins();
  started_ = now_;
  Say(Announce::Level::kInfo,
      absl::StrCat("event=started policy=", PolicyName(options_.sync.policy),
                   " workers=", members_.living(Role::kWorker), " shards=",
                   options_.shards, " version=", begins_.version.value()));
}

void Coordinator::Impl::CheckStop() {
  if (phase_ != Phase::kRunning) return;
  const StopOptions& stop = options_.stop;
  const int64_t version = stream_.decided().value();
  if (stop.updates.has_value() && version >= *stop.updates) {
    return BeginFinish(absl::StrCat(version, " updates made"));
  }
  if (stop.time.has_value() && Running(now_) >= *stop.time) {
    return BeginFinish(
        absl::StrCat(absl::FormatDuration(*stop.time), " are over"));
  }
  if (schedule_.finished()) {
    return BeginFinish(absl::StrCat(*stop.epochs, " epochs done"));
  }
  // With SHRINK, partitions that nobody serves are not waited for.
  const bool nothing_comes = tasks_.open() == 0 && StillToCome() == 0 &&
                             members_.living(Role::kWorker) > 0;
  if (!nothing_comes || RoundExhausted()) return;
  const int64_t left = schedule_.total() - schedule_.done();
  stats_.LeftOut(left);
  BeginFinish(absl::StrCat(*stop.epochs, " epochs done, but for ", left,
                           " mini-batches that nobody serves"));
}

void Coordinator::Impl::BeginFinish(const std::string& reason) {
  phase_ = Phase::kFinishing;
  message_ = reason;
  ended_ = now_;
  finishing_since_ = awake_;
  short_since_.reset();
  Say(Announce::Level::kInfo,
      absl::StrCat("event=finishing version=", stream_.decided().value(),
                   " reason=\"", reason, "\""));
  EndAllTasks(Outcome::kCancelled, absl::StrCat("the run is over: ", reason));
}

// The final version is evaluated, and written, by the evaluator, and stored as
// a checkpoint; then, when every shard has executed everything, all may go.
void Coordinator::Impl::ProgressFinish() {
  if (phase_ != Phase::kFinishing) return;
  const bool stored = LastVersionStored();
  if (options_.evaluator && !evaluations_.final_done()) {
    const PeerLife life = members_.Get({Role::kEvaluator, 0}).life;
    if (evaluations_.running().has_value()) return;
    if (life == PeerLife::kAlive) return StartEvaluation(/*final=*/true);
    const absl::Time since = std::max(finishing_since_, evaluator_lost_);
    if (life == PeerLife::kSuspect ||
        awake_ - since < options_.finish_timeout) {
      return;
    }
    Say(Announce::Level::kWarning,
        absl::StrCat("event=not_evaluated version=", stream_.decided().value(),
                     " reason=\"the evaluator did not come back within ",
                     absl::FormatDuration(options_.finish_timeout), "\""));
  }
  if (stored && stream_.idle()) Finish("", message_);
}

void Coordinator::Impl::Finish(const std::string& failure,
                               const std::string& reason) {
  if (phase_ != Phase::kFinishing) ended_ = now_;
  phase_ = failure.empty() ? Phase::kFinished : Phase::kFailed;
  message_ = failure.empty() ? reason : failure;
  Say(failure.empty() ? Announce::Level::kInfo : Announce::Level::kError,
      absl::StrCat("event=", failure.empty() ? "finished" : "failed",
                   " version=", stream_.decided().value(), " reason=\"",
                   message_, "\""));
  Emit(FinishRun{failure, reason});
}

void Coordinator::Impl::Fail(const std::string& failure) {
  if (over()) return;
  EndAllTasks(Outcome::kCancelled, failure);
  Finish(failure, failure);
}

void Coordinator::Impl::Recover(const std::string& why) {
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
          " version=", newest.value(), " reason=\"", why, "\""));
  Emit(EndGeneration{why, std::max(newest, past.furthest), fruitless});
}

void Coordinator::Impl::RequestStop(const std::string& reason) {
  if (phase_ == Phase::kRunning) {
    BeginFinish(reason);
  } else if (phase_ == Phase::kStarting) {
    Finish("", reason);
  }
}

// ---- Evaluations ----

// One that was due while the evaluator was busy or away takes the newest
// version.
void Coordinator::Impl::MaybeEvaluate() {
  if (phase_ != Phase::kRunning || !evaluations_.ShouldStart()) return;
  if (members_.Get({Role::kEvaluator, 0}).life != PeerLife::kAlive) return;
  StartEvaluation(/*final=*/false);
}

void Coordinator::Impl::StartEvaluation(bool final) {
  const Version version = stream_.decided();
  Decide(Pin{version});
  evaluations_.Start(version, final, awake_);
  Emit(SendEvaluate{version, final});
}

void Coordinator::Impl::Evaluated(const Evaluation& evaluation) {
  if (over()) return;
  const auto running = evaluations_.Answer(evaluation.version);
  if (!running.has_value()) return;
  Decide(Release{running->version});
  if (!evaluation.error.empty()) {
    const std::string what =
        absl::StrCat("evaluator: evaluation of version ",
                     evaluation.version.value(), ": ", evaluation.error);
    if (running->final) return Fail(what);
    return Say(Announce::Level::kWarning,
               absl::StrCat("event=evaluation_failed reason=\"", what, "\""));
  }
  last_evaluation_ = evaluation;
  if (running->final) final_evaluation_ = evaluation;
  Emit(RecordEvaluation{evaluation});
  const auto& target = options_.stop.target_accuracy;
  if (phase_ == Phase::kRunning && target.has_value() &&
      evaluation.accuracy.value_or(0) >= *target) {
    BeginFinish(absl::StrCat("test accuracy ", *evaluation.accuracy,
                             " reached at version ",
                             evaluation.version.value()));
  }
}

// ---- Deadlines: nothing waits without one, and each names its culprit. ----

std::string Coordinator::Impl::MissingPeers() const {
  std::vector<std::string> missing;
  for (Role role : {Role::kShard, Role::kWorker, Role::kEvaluator}) {
    std::string names = members_.Missing(role);
    if (!names.empty()) missing.push_back(std::move(names));
  }
  if (missing.empty() && restore_sent_ && !stream_.idle()) {
    return absl::StrCat("shard ", stream_.slowest().value(),
                        " to load version ", begins_.version.value());
  }
  return absl::StrJoin(missing, ", ");
}

void Coordinator::Impl::CheckDeadlines() {
  if (over()) return;
  if (phase_ == Phase::kStarting) {
    // Awake and real time agree on how long others had the chance to join.
    if (awake_ - created_ < options_.start_timeout) return;
    return Fail(absl::StrCat("waited ",
                             absl::FormatDuration(options_.start_timeout),
                             " for ", MissingPeers()));
  }
  if (short_since_.has_value() &&
      awake_ - *short_since_ >= options_.sync.shortage_timeout) {
    return Fail(absl::StrCat(
        "waited ", absl::FormatDuration(options_.sync.shortage_timeout),
        " for workers: ", DescribeShortage()));
  }
  if (!stream_.idle() &&
      awake_ - stream_.waiting_since() >= options_.task_deadline) {
    return Fail(absl::StrCat("shard ", stream_.slowest().value(),
                             " has not executed decision ",
                             stream_.acknowledged() + 1, " within ",
                             absl::FormatDuration(options_.task_deadline)));
  }
  CheckStoringDeadline();
  const auto& running = evaluations_.running();
  if (!running.has_value() ||
      awake_ - running->since < options_.task_deadline) {
    return;
  }
  const Peer evaluator{Role::kEvaluator, 0};
  const Incarnation incarnation = members_.Get(evaluator).incarnation;
  const std::string why = absl::StrCat(
      "took longer than ", absl::FormatDuration(options_.task_deadline),
      " for version ", running->version.value());
  members_.Died(evaluator, incarnation);
  Emit(EndSession{evaluator, incarnation, why});
  PeerLost(evaluator, why);
}

}  // namespace sluice

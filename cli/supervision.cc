#include "cli/supervision.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace sluice {

void Supervision::EndBy(absl::Time deadline) {
  deadline_ = deadline_.has_value() ? std::min(*deadline_, deadline) : deadline;
}

void Supervision::Blame(const PartEnd& end, const std::string& failure) {
  // The first to die is the culprit, and one that was killed before one that
  // ended because the run did; the others follow from it.
  const bool first = failure_.empty() && culprit_.empty();
  if (first || (end.killed && !culprit_was_killed_)) {
    culprit_ = end.name;
    culprit_was_killed_ = end.killed;
  }
  if (failure_.empty()) failure_ = failure;
}

void Supervision::OnFailure(const std::string& message) {
  if (failure_.empty()) failure_ = message;
}

void Supervision::OnLastWord(const std::string& message) {
  if (!message.empty() && !culprit_was_killed_) failure_ = message;
}

SuperviseActions Supervision::OnEnd(const PartEnd& end, absl::Time now) {
  SuperviseActions actions;
  if (end.part == Part::kWorker) --workers_left_;
  if (end.part == Part::kLead) {
    EndBy(now + kGrace);
    lead_ended_ = true;
    lead_ended_well_ = end.ok;
  }
  if (end.ok || killing_) return actions;
  const std::string died = absl::StrCat(end.name, ": ", end.how);
  switch (end.part) {
    case Part::kLead:
    case Part::kShard:
      Blame(end, died);
      EndBy(now + kGrace);
      break;
    case Part::kWorker:
      if (workers_left_ == 0 && !lead_ended_well_) {
        Blame(end, absl::StrCat(died, "; no worker is left"));
        EndBy(now + kGrace);
      } else if (failure_.empty()) {
        // In a run that fails everybody ends so; that is no news.
        actions.say.push_back(died);
      }
      break;
    case Part::kEvaluator:
      if (failure_.empty()) OnEvaluatorDied(end, now, &actions);
      break;
  }
  return actions;
}

void Supervision::OnEvaluatorDied(const PartEnd& end, absl::Time now,
                                  SuperviseActions* actions) {
  const std::string died = absl::StrCat(end.name, ": ", end.how);
  if (!lead_ended_ && evaluator_restarts_ < kEvaluatorRestarts) {
    ++evaluator_restarts_;
    evaluator_due_ = now + kEvaluatorPause;
    evaluator_died_ = died;
    return;
  }
  // The coordinator ends the run without the final evaluation.
  Blame(end, absl::StrCat(died, "; the final version is not evaluated"));
  actions->say.push_back(failure_);
}

SuperviseActions Supervision::OnInterrupt() {
  SuperviseActions actions;
  if (interrupted_) {
    killed_by_user_ = true;
    killing_ = true;
    actions.kill = true;
    return actions;
  }
  interrupted_ = true;
  actions.stop = true;
  actions.say.push_back("stopping; once more to kill");
  return actions;
}

void Supervision::RestartEvaluator(absl::Time now, SuperviseActions* actions) {
  if (!evaluator_due_.has_value() || now < *evaluator_due_) return;
  evaluator_due_.reset();
  if (lead_ended_ || killing_ || !failure_.empty()) return;
  actions->restart_evaluator = true;
  actions->say.push_back(absl::StrCat(evaluator_died_, "; starting it again"));
}

SuperviseActions Supervision::OnTime(absl::Time now) {
  SuperviseActions actions;
  RestartEvaluator(now, &actions);
  if (!deadline_.has_value() || now < *deadline_) return actions;
  deadline_.reset();
  killing_ = true;
  actions.kill = true;
  // Whoever had not joined when the user stopped the run waits in vain.
  if (failure_.empty() && !interrupted_) {
    failure_ = "a process did not end with the run and was killed";
  }
  return actions;
}

int Supervision::ExitCode() const {
  if (killed_by_user_) return 130;
  return failure_.empty() && lead_ended_well_ ? 0 : 1;
}

}  // namespace sluice

// Who is started again, and when:
//
//   0.0 s   ps_server-1 is killed   at once, since the run waits for it
//   0.1 s   ps_server-1 again       no progress since, 2 in a row: at 1.1 s
//   0.2 s   worker-2 is killed      at once
//   0.9 s   worker-2 again          2 in a row: at 1.9 s, unless the run has
//                                   failed by then
//    ...    worker-2, four more times, each within 5 s of its start: given up;
//           the coordinator decides whether the run can do without it
//   90 s    the lead ends well      93 s: SIGTERM to those that are left
//                                   96 s: SIGKILL
#include "cli/launch/supervision.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace sluice {
namespace {

// The worker that it is of; nullopt: of none.
std::optional<int> WorkerOfPart(const PartEnd& end) {
  if (end.part == Part::kWorker) return end.number;
  if (end.part == Part::kMember) return WorkerOf(end.number);
  return std::nullopt;
}

}  // namespace

std::string NameOfPart(Part part, int number) {
  switch (part) {
    case Part::kLead:
    case Part::kShard:
      return absl::StrCat("ps_server-", number);
    case Part::kWorker:
      return absl::StrCat("worker-", number);
    case Part::kMember:
      return absl::StrCat("worker-", WorkerOf(number), ".", MemberOf(number));
    case Part::kEvaluator:
      return "evaluator";
  }
  return "";
}

void Supervision::EndBy(absl::Time deadline) {
  deadline_ = deadline_.has_value() ? std::min(*deadline_, deadline) : deadline;
}

void Supervision::Blame(const PartEnd& end, const std::string& failure) {
  // The first death is the cause, the others follow from it. But a child that
  // was killed comes before one that ended by itself, which may have ended only
  // because the run did.
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

void Supervision::OnProgress(const RunProgress& progress) {
  heard_ = true;
  progress_.begun |= progress.begun;
  progress_.version = std::max(progress_.version, progress.version);
  progress_.checkpoint = std::max(progress_.checkpoint, progress.checkpoint);
}

bool Supervision::WorkerEnded(std::optional<int> worker) const {
  return worker.has_value() && workers_ended_.count(*worker) > 0;
}

bool Supervision::MayRestart(const PartEnd& end) const {
  if (Ending() || WorkerEnded(WorkerOfPart(end))) return false;
  if (end.part == Part::kLead) return end.killed;
  // The launcher's lead listens before it starts others: one that does not
  // answer them hangs.
  return end.killed || (end.asks_for_restart && progress_.begun) ||
         (end.part == Part::kEvaluator && !end.misused);
}

std::optional<absl::Time> Supervision::CountDeath(const PartEnd& end,
                                                  Record* record,
                                                  absl::Time now) const {
  const bool server = end.part == Part::kLead || end.part == Part::kShard;
  const bool further = progress_.version > record->at.version ||
                       progress_.checkpoint > record->at.checkpoint;
  const bool in_a_row = server ? record->deaths > 0 && !further
                               : now - record->started < kSettled;
  record->at = progress_;
  record->deaths = in_a_row ? record->deaths + 1 : 1;
  if (record->deaths > kRestarts) return std::nullopt;
  const bool at_once = server || (end.part == Part::kWorker && end.killed);
  return at_once && record->deaths == 1 ? now : now + kPause;
}

void Supervision::NameLate(const std::string& name) {
  late_.push_back(name);
  failure_ = absl::StrCat(absl::StrJoin(late_, ", "), " did not end within ",
                          absl::FormatDuration(programs_end_ + kGrace),
                          " of the coordinator and had to be killed");
}

SuperviseActions Supervision::OnEnd(const PartEnd& end, absl::Time now) {
  SuperviseActions actions;
  if (too_late_ && end.killed) NameLate(end.name);
  std::string died = absl::StrCat(end.name, ": ", end.how);
  if (!end.ok && MayRestart(end)) {
    Record& record = records_[end.name];
    record.due = CountDeath(end, &record, now);
    record.died = died;
    record.worker = WorkerOfPart(end);
    if (record.due.has_value()) {
      RestartDue(now, &actions);
      return actions;
    }
    absl::StrAppend(&died, ", for the ", record.deaths, "th time in a row");
  }
  // After its worker was given up it was told to end.
  if (WorkerEnded(WorkerOfPart(end))) return actions;
  if (const std::optional<int> worker = WorkerOfPart(end); worker.has_value()) {
    workers_ended_.insert(*worker);
    worker_ended_well_ |= end.ok;
    // It was told to leave, and its other members would wait for it.
    if (end.ok && !lead_ended_) actions.part_with.push_back(*worker);
  }
  if (end.part == Part::kLead) {
    // Whoever stops a run wants it to end.
    const absl::Duration programs =
        end.ok && !interrupted_ ? programs_end_ : absl::ZeroDuration();
    EndBy(now + programs + kGrace);
    lead_ended_ = true;
    lead_ended_well_ = end.ok;
    if (end.ok) dismiss_at_ = now + programs + kDismissal;
    if (programs > absl::ZeroDuration()) say_waits_at_ = now + kDismissal;
    restarted_ = now - restarted_at_ < kSettled;
  }
  if (!end.ok && !killing_) GiveUp(end, died, now, &actions);
  return actions;
}

void Supervision::GiveUp(const PartEnd& end, const std::string& died,
                         absl::Time now, SuperviseActions* actions) {
  switch (end.part) {
    case Part::kLead:
    case Part::kShard:
      // After Ctrl-C a shard that had not joined is refused, or waits in vain.
      // If the run needed it, the lead fails. Where the lead has ended well,
      // all is written.
      if (end.part == Part::kLead || !(interrupted_ || lead_ended_well_)) {
        Blame(end, died);
      }
      EndBy(now + kGrace);
      return;
    case Part::kWorker:
    case Part::kMember:
      return GiveUpWorker(end, died, now, actions);
    case Part::kEvaluator:
      if (!failure_.empty()) return;
      if (!progress_.begun) return FailTheStart(end, died, now);
      not_evaluated_ =
          absl::StrCat(died, "; the final version is not evaluated");
      evaluator_ = end.name;
      actions->say.push_back(not_evaluated_);
      return;
  }
}

void Supervision::GiveUpWorker(const PartEnd& end, const std::string& died,
                               absl::Time now, SuperviseActions* actions) {
  if (HoldsUpTheStart()) return FailTheStart(end, died, now);
  const bool none_left = static_cast<int>(workers_ended_.size()) == workers_;
  // When the run ends well, a worker that was just being started again comes
  // too late for a good end. That is no failure.
  if (none_left && !lead_ended_well_ && !worker_ended_well_) {
    Blame(end, absl::StrCat(died, "; no worker is left"));
    EndBy(now + kGrace);
  } else if (failure_.empty()) {
    // Once the run has failed, such an end is no news.
    actions->say.push_back(died);
    given_up_.push_back(died);
  }
  // Its other members would wait for this one.
  actions->part_with.push_back(*WorkerOfPart(end));
}

bool Supervision::HoldsUpTheStart() const {
  return heard_ && !progress_.begun && failure_.empty() && !interrupted_;
}

void Supervision::FailTheStart(const PartEnd& end, const std::string& died,
                               absl::Time now) {
  Blame(end, absl::StrCat(died, "; the run does not begin without it"));
  EndBy(now + kGrace);
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
  actions.dismiss = lead_ended_well_;  // Programs are not waited for.
  actions.say.push_back("stopping; once more to kill");
  return actions;
}

void Supervision::RestartDue(absl::Time now, SuperviseActions* actions) {
  for (auto& [name, record] : records_) {
    if (!record.due.has_value()) continue;
    if (Ending() || WorkerEnded(record.worker)) record.due.reset();
    if (!record.due.has_value() || now < *record.due) continue;
    record.due.reset();
    record.started = now;
    restarted_at_ = now;
    actions->restart.push_back(name);
    actions->say.push_back(absl::StrCat(record.died, "; starting it again"));
  }
}

std::string Supervision::culprit() const {
  if (failure_.empty()) return evaluator_;
  // The lead hears of a failed evaluation, and may have ended first.
  const bool evaluation = absl::StartsWith(failure_, "evaluator: ");
  return evaluation ? NameOfPart(Part::kEvaluator, 0) : culprit_;
}

bool Supervision::RestartsPending() const {
  return std::any_of(records_.begin(), records_.end(), [](const auto& entry) {
    return entry.second.due.has_value();
  });
}

SuperviseActions Supervision::OnTime(absl::Time now) {
  SuperviseActions actions;
  RestartDue(now, &actions);
  if (say_waits_at_.has_value() && now >= *say_waits_at_) {
    say_waits_at_.reset();
    actions.say.push_back(absl::StrCat(
        "the run is over; what its programs do behind their loops may take ",
        absl::FormatDuration(programs_end_), " (limits.model_process_end_s)"));
  }
  if (dismiss_at_.has_value() && now >= *dismiss_at_) {
    dismiss_at_.reset();
    actions.dismiss = true;
  }
  if (!deadline_.has_value() || now < *deadline_) return actions;
  deadline_.reset();
  killing_ = true;
  actions.kill = true;
  // A child that had not joined when the user stopped the run waits in vain for
  // the lead, as does one that was being started again when the run ended. To
  // kill these is no failure.
  const bool late = lead_ended_well_ && restarted_;
  if (failure_.empty() && !interrupted_ && !late) {
    too_late_ = true;
    failure_ = "a process did not end with the run and was killed";
  }
  return actions;
}

int Supervision::ExitCode() const {
  if (killed_by_user_) return 130;
  return failure().empty() && lead_ended_well_ ? 0 : 1;
}

}  // namespace sluice

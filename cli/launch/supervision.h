#ifndef SLUICE_CLI_LAUNCH_SUPERVISION_H_
#define SLUICE_CLI_LAUNCH_SUPERVISION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/job/group.h"

namespace sluice {

// A worker of several processes is its first member; the others are kMember.
enum class Part { kLead, kShard, kWorker, kMember, kEvaluator };

// The number of a kMember, and what it says.
inline int NumberOfMember(int worker, int member) {
  return worker * kMostMembers + member;
}
inline int WorkerOf(int number) { return number / kMostMembers; }
inline int MemberOf(int number) { return number % kMostMembers; }

// "worker-2", "worker-2.1" (its member 1), "ps_server-0" (the lead),
// "evaluator": what it and its log are called.
std::string NameOfPart(Part part, int number);

// A child that ended.
struct PartEnd {
  Part part = Part::kWorker;
  int number = 0;
  std::string name;  // "worker-2"
  bool ok = false;   // Exit status 0.
  // A signal ended it.
  bool killed = false;
  // What it waited for in vain may come yet (kExitRestart): the coordinator,
  // or in the lead the run's folder.
  bool asks_for_restart = false;
  // Its flags, job or files are wrong (kExitUsage), and will be again.
  bool misused = false;
  std::string how;           // "exit status 1: no GPU number 4"
  std::string process = {};  // "host:pid"
};

// What the launcher is to do now, in this order.
struct SuperviseActions {
  std::vector<std::string> say;      // Lines for the user.
  std::vector<std::string> restart;  // Names of children to be started again.
  std::vector<int> part_with;        // Workers whose processes get SIGTERM.
  bool stop = false;                 // Ask the coordinator to end the run.
  bool dismiss = false;              // Send SIGTERM to every child left.
  bool kill = false;                 // Kill every child that is left.
};

// How far the run is, as its coordinator says. All fields only grow.
struct RunProgress {
  bool begun = false;  // All were there.
  int64_t version = 0;
  // Generation and version of the newest checkpoint; 0: none yet.
  std::pair<int64_t, int64_t> checkpoint = {};
};

// Decides what the launcher of a run on one machine does when a child ends,
// when the user interrupts, and when time passes. Pure: holds no process and no
// clock. What a bad end leads to:
//
//   child      killed, or asks for a restart     other exit status
//   lead       started again where it was        the run fails
//              killed, resumes the run
//   shard      started again                     the run fails
//   worker     started again                     the coordinator decides; the
//                                                run fails with the last one,
//                                                and where it has not begun
//   member     started again                     as with the worker
//   evaluator  started again                     started again, unless its
//                                                files are wrong
//
// With a member that is not started again its worker has ended, also with one
// that has left by itself: the worker's other members get SIGTERM.
//
// A child that dies more than kRestarts times in a row is not started again.
// Then the right column holds, and without an evaluator the run ends without
// its final evaluation, or at once where it has not begun.
//
// Not thread-safe: call from one thread.
class Supervision {
 public:
  // How long the coordinator may take to end a run that has lost a part, and
  // the other children to end after the lead. A failed run ends within 10
  // seconds; the rest is for killing and reporting.
  static constexpr absl::Duration kGrace = absl::Seconds(6);
  // How long after a good end of the lead the children that are left get
  // SIGTERM. A worker that was cut off has not heard of the end, and would look
  // for the lead. From here to kGrace is time enough to end in order. Both come
  // later by what model processes may take for their end.
  static constexpr absl::Duration kDismissal = absl::Seconds(3);
  // A child that dies more often than this in a row dies of the job. Deaths of
  // a server are in a row if the run made no progress between them, those of
  // other children if they lived shorter than kSettled.
  static constexpr int kRestarts = 5;
  static constexpr absl::Duration kSettled = absl::Seconds(5);
  // How long a dead child waits to be started again. If it died because the run
  // failed, the lead has ended or said so by then, and it stays dead. The first
  // death in a row of a server or a killed worker skips this: the run waits for
  // the one, and has the work of the other done by those that are left.
  static constexpr absl::Duration kPause = absl::Seconds(1);

  // `workers`: how many may take part, also started by others. The run fails
  // when none of them can be left; before that the coordinator decides.
  // `programs_end`: what model processes may take after a good end of the lead,
  // unless an interrupt brought it about.
  explicit Supervision(int workers,
                       absl::Duration programs_end = absl::ZeroDuration())
      : workers_(workers), programs_end_(programs_end) {}

  SuperviseActions OnEnd(const PartEnd& end, absl::Time now);
  // Ctrl-C or a request to terminate: the first stops, the second kills.
  SuperviseActions OnInterrupt();
  // The coordinator says that the run failed. Its message names the culprit.
  void OnFailure(const std::string& message);
  // The failure that the coordinator left in summary.json, read once every
  // child has ended. It wins over the end of a child that only followed from
  // it.
  void OnLastWord(const std::string& message);
  void OnProgress(const RunProgress& progress);
  SuperviseActions OnTime(absl::Time now);

  // Whether a child is still to be started again.
  bool RestartsPending() const;

  // 0 the run reached its end, 1 it failed, 130 the user had it killed.
  // REQUIRES: every child has ended.
  int ExitCode() const;

  // Why it failed, for a person; empty when it did not.
  const std::string& failure() const {
    return failure_.empty() ? not_evaluated_ : failure_;
  }
  // The workers that had ended by themselves before it failed, and how.
  const std::vector<std::string>& given_up() const { return given_up_; }
  // The child whose log says more of the reason; empty if there is none.
  std::string culprit() const;

 private:
  // What is known of a child that died.
  struct Record {
    int deaths = 0;  // In a row.
    RunProgress at;  // How far the run was at the last death.
    absl::Time started = absl::InfinitePast();
    // While it is to be started again: when, and how it died.
    std::optional<absl::Time> due;
    std::string died;
    std::optional<int> worker;  // Of which it is.
  };

  bool MayRestart(const PartEnd& end) const;
  // Whether it is of a worker that has ended.
  bool WorkerEnded(std::optional<int> worker) const;
  // Counts the death. Returns when the child is to be started again; nullopt:
  // never.
  std::optional<absl::Time> CountDeath(const PartEnd& end, Record* record,
                                       absl::Time now) const;
  // What follows from the bad end of a child that is not started again; of
  // those of one worker, for the first.
  void GiveUp(const PartEnd& end, const std::string& died, absl::Time now,
              SuperviseActions* actions);
  void GiveUpWorker(const PartEnd& end, const std::string& died, absl::Time now,
                    SuperviseActions* actions);
  // The coordinator begins only when all are there.
  bool HoldsUpTheStart() const;
  void FailTheStart(const PartEnd& end, const std::string& died,
                    absl::Time now);
  void RestartDue(absl::Time now, SuperviseActions* actions);
  bool Ending() const { return lead_ended_ || killing_ || !failure_.empty(); }
  void EndBy(absl::Time deadline);
  // Makes it the failure that `name` did not end in time and was killed.
  void NameLate(const std::string& name);
  void Blame(const PartEnd& end, const std::string& failure);

  // Constant after construction.
  const int workers_;
  const absl::Duration programs_end_;

  std::set<int> workers_ended_;
  std::vector<std::string> given_up_;
  bool worker_ended_well_ = false;
  absl::Time restarted_at_ = absl::InfinitePast();  // The last restart.
  bool restarted_ = false;  // A child had just restarted when the lead ended.
  std::map<std::string, Record> records_;  // By name.
  RunProgress progress_;
  bool heard_ = false;  // The coordinator has said how far the run is.
  std::optional<absl::Time> say_waits_at_;  // For programs, after the lead.
  std::optional<absl::Time> dismiss_at_;
  bool lead_ended_ = false;
  bool lead_ended_well_ = false;
  bool interrupted_ = false;
  bool killed_by_user_ = false;
  std::string failure_;
  std::string culprit_;
  // That and whose end it is that the final version will not be evaluated: the
  // run goes on until then as if nothing had happened.
  std::string not_evaluated_;
  std::string evaluator_;
  bool culprit_was_killed_ = false;
  bool killing_ = false;  // From here on children end because we kill them.
  // When every child that still runs is killed.
  std::optional<absl::Time> deadline_;
  bool too_late_ = false;  // The run failed since a child did not end in time.
  std::vector<std::string> late_;  // Such children, by name.
};

}  // namespace sluice

#endif  // SLUICE_CLI_LAUNCH_SUPERVISION_H_

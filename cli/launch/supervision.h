#ifndef SLUICE_CLI_LAUNCH_SUPERVISION_H_
#define SLUICE_CLI_LAUNCH_SUPERVISION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/time.h"

namespace sluice {

enum class Part { kLead, kShard, kWorker, kEvaluator };

// "worker-2", "ps_server-0" (the lead), "evaluator": what it and its log are
// called.
std::string NameOfPart(Part part, int number);

// A child that ended.
struct PartEnd {
  Part part = Part::kWorker;
  int number = 0;
  std::string name;  // "worker-2"
  bool ok = false;   // Exit status 0.
  // A signal ended it, so that it had no part in an orderly end.
  bool killed = false;
  // It ended because the coordinator fell silent (kExitCoordinatorLost).
  bool lost_coordinator = false;
  std::string how;           // "killed by signal 9 (Killed)"
  std::string process = {};  // "host:pid"
};

// What the launcher is to do now, in this order.
struct SuperviseActions {
  std::vector<std::string> say;      // Lines for the user.
  std::vector<std::string> restart;  // Names of children to be started again.
  bool stop = false;                 // Ask the coordinator to end the run.
  bool dismiss = false;              // Tell every child that is left to leave.
  bool kill = false;                 // Kill every child that is left.
};

// How far the coordinator says that the run is; more is further.
struct RunProgress {
  int64_t version = 0;
  // Generation and version of the newest checkpoint; 0: none yet.
  std::pair<int64_t, int64_t> checkpoint = {};
};

// Decides what the launcher of a run on one machine does when a child ends,
// the user interrupts, or time passes. Whoever is killed, or waited in vain
// for the coordinator, is started again, a few times in a row; what follows for
// the run is the coordinator's to decide, or for who comes in its place. Who
// ends by itself has said why: a worker is left to the coordinator, a shard
// ends the run; but the evaluator is started again. Holds no process and no
// clock.
// Not thread-safe: call from one thread.
class Supervision {
 public:
  // How long the coordinator may take to end a run that has lost a part, and
  // the others to end with the lead; with the time to kill and report within
  // the 10 seconds a failed run may take.
  static constexpr absl::Duration kGrace = absl::Seconds(6);
  // When, after a good end of the lead, those are told to leave who are left: a
  // worker that was cut off has not heard of the end, and looks for the lead.
  // The time until kGrace is enough to take leave.
  static constexpr absl::Duration kDismissal = absl::Seconds(3);
  // Who dies this often in a row, and then once more, dies of the job. In a
  // row are, of a server, deaths between which the run came no further; of
  // others, those of lives shorter than kSettled.
  static constexpr int kRestarts = 5;
  static constexpr absl::Duration kSettled = absl::Seconds(5);
  // How long whom the run does not wait for is left dead: one that only ended
  // because the run failed is not started again, since by then the lead has
  // ended or said so. A server only waits from its second death in a row on.
  static constexpr absl::Duration kPause = absl::Seconds(1);

  // `workers`: those that may take part. A run none of whom can be left fails;
  // whether others than the launcher's are there, the coordinator knows.
  explicit Supervision(int workers) : workers_left_(workers) {}

  SuperviseActions OnEnd(const PartEnd& end, absl::Time now);
  // Ctrl-C or a request to terminate: the first stops, the second kills.
  SuperviseActions OnInterrupt();
  // The coordinator says that the run failed; what it says names the culprit.
  void OnFailure(const std::string& message);
  // The same once every child has ended, from what the coordinator left
  // behind: it stands before what is said of a part that only ended with the
  // run.
  void OnLastWord(const std::string& message);
  void OnProgress(const RunProgress& progress);
  SuperviseActions OnTime(absl::Time now);

  // Whether somebody who has ended is still to be started again.
  bool RestartsPending() const;

  // 0 the run reached its end, 1 it failed, 130 the user had it killed. Only
  // once every child has ended.
  int ExitCode() const;

  // Why it failed, for a person; empty when it did not.
  const std::string& failure() const { return failure_; }
  // Whose log holds the reason; empty when nobody's does.
  const std::string& culprit() const { return culprit_; }

 private:
  // What is known of a child that died.
  struct Record {
    int deaths = 0;  // In a row.
    RunProgress at;  // How far the run was then.
    absl::Time started = absl::InfinitePast();
    // While it is to be started again: when, and how it died.
    std::optional<absl::Time> due;
    std::string died;
  };

  bool MayRestart(const PartEnd& end) const;
  // Counts the death: when it is to be started again, nullopt: not any more.
  std::optional<absl::Time> CountDeath(const PartEnd& end, Record* record,
                                       absl::Time now) const;
  // What follows from a bad end of one that is not started again.
  void GiveUp(const PartEnd& end, const std::string& died, absl::Time now,
              SuperviseActions* actions);
  void RestartDue(absl::Time now, SuperviseActions* actions);
  bool Ending() const { return lead_ended_ || killing_ || !failure_.empty(); }
  void EndBy(absl::Time deadline);
  // Says that the run ended without `name`, which was killed for it.
  void NameLate(const std::string& name);
  void Blame(const PartEnd& end, const std::string& failure);

  int workers_left_;
  bool worker_ended_well_ = false;
  absl::Time restarted_at_ = absl::InfinitePast();  // The last restart.
  bool restarted_ = false;  // When the lead ended, somebody just had been.
  std::map<std::string, Record> records_;  // By name.
  RunProgress progress_;
  std::optional<absl::Time> dismiss_at_;
  bool lead_ended_ = false;
  bool lead_ended_well_ = false;
  bool interrupted_ = false;
  bool killed_by_user_ = false;
  std::string failure_;
  std::string culprit_;
  bool culprit_was_killed_ = false;
  bool killing_ = false;  // What ends from here on follows from our kill.
  // When whoever still runs is killed.
  std::optional<absl::Time> deadline_;
  bool too_late_ = false;          // The run fails by who was then killed:
  std::vector<std::string> late_;  // these.
};

}  // namespace sluice

#endif  // SLUICE_CLI_LAUNCH_SUPERVISION_H_

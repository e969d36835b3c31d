#ifndef SLUICE_CLI_SUPERVISION_H_
#define SLUICE_CLI_SUPERVISION_H_

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

namespace sluice {

enum class Part { kLead, kShard, kWorker, kEvaluator };

// A child that ended.
struct PartEnd {
  Part part = Part::kWorker;
  std::string name;  // "worker-2"
  bool ok = false;   // Exit status 0.
  // A signal ended it, so that it had no part in an orderly end.
  bool killed = false;
  std::string how;  // "killed by signal 9 (Killed)"
};

// What the launcher is to do now, in this order.
struct SuperviseActions {
  std::vector<std::string> say;  // Lines for the user.
  bool restart_evaluator = false;
  bool stop = false;  // Ask the coordinator to end the run.
  bool kill = false;  // Kill every child that is left.
};

// Decides what the launcher of a run on one machine does when a child ends,
// the user interrupts, or time passes: a worker's death is reported and left
// to the coordinator, the evaluator is started again, a shard's death ends the
// run. Holds no process and no clock.
// Not thread-safe: call from one thread.
class Supervision {
 public:
  // How long the coordinator may take to end a run that has lost a part, and
  // the others to end with the lead; with the time to kill and report within
  // the 10 seconds a failed run may take.
  static constexpr absl::Duration kGrace = absl::Seconds(6);
  // The evaluator keeps nothing, so a new one takes over; one that dies this
  // often again dies of the job.
  static constexpr int kEvaluatorRestarts = 3;
  // How long it is left dead: one that only ended because the run failed is
  // not started again, since by then the lead has ended or said so.
  static constexpr absl::Duration kEvaluatorPause = absl::Seconds(1);

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
  SuperviseActions OnTime(absl::Time now);

  // 0 the run reached its end, 1 it failed, 130 the user had it killed. Only
  // once every child has ended.
  int ExitCode() const;

  // Why it failed, for a person; empty when it did not.
  const std::string& failure() const { return failure_; }
  // Whose log holds the reason; empty when nobody's does.
  const std::string& culprit() const { return culprit_; }

 private:
  void OnEvaluatorDied(const PartEnd& end, absl::Time now,
                       SuperviseActions* actions);
  void RestartEvaluator(absl::Time now, SuperviseActions* actions);
  void EndBy(absl::Time deadline);
  void Blame(const PartEnd& end, const std::string& failure);

  int workers_left_;
  int evaluator_restarts_ = 0;
  // While it is dead and to be started again: when, and how it died.
  std::optional<absl::Time> evaluator_due_;
  std::string evaluator_died_;
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
};

}  // namespace sluice

#endif  // SLUICE_CLI_SUPERVISION_H_

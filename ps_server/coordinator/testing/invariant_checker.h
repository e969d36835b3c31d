#ifndef SLUICE_PS_SERVER_COORDINATOR_TESTING_INVARIANT_CHECKER_H_
#define SLUICE_PS_SERVER_COORDINATOR_TESTING_INVARIANT_CHECKER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/batch_grid.h"
#include "ps_server/coordinator/core/coordinator_options.h"
#include "ps_server/coordinator/testing/checkpoint_checker.h"
#include "ps_server/decisions/events.h"

namespace sluice {

// Watches everything that a coordinator says and holds it against the rules
// that no policy may break:
//
//   - a task is recorded before it is sent, an end before its verdict, a
//     commit before its decision;
//   - one live task per mini-batch and per worker;
//   - a mini-batch is in at most one update, and so is a gradient;
//   - every task ends once, with one verdict at most;
//   - only ready gradients are committed, in mini-batch order, and their
//     weights sum to 1 unless stale ones are downweighted;
//   - decisions and versions are numbered without gaps;
//   - granted room never exceeds the limit, nor versions the commit window;
//   - what is pinned is released, and only that, and when its reader is done;
//   - what CheckpointChecker says of checkpoints.
//
// It keeps the first violation.
//
// Not thread-safe: call from one thread.
class InvariantChecker {
 public:
  explicit InvariantChecker(const CoordinatorOptions& options);

  void Observe(const Actions& actions);
  // The coordinator answered OK to a Ready; call before Observe() of what it
  // said in the same call.
  void Accepted(const GradientKey& key);
  // The shard says it has executed everything up to `number`; call before the
  // coordinator hears of it.
  void Executed(int64_t shard, int64_t number);

  // The evaluator is about to answer, or has died: it reads no more.
  void EvaluatorDone() { evaluating_.reset(); }
  // The coordinator is about to hear of it.
  void Stored(int64_t shard, Version version, const StoredPart& part) {
    checkpoints_.Stored(shard, version, part);
  }
  void ManifestWritten(Version version, const std::string& error) {
    checkpoints_.ManifestWritten(version, error);
  }

  // Call when the run is over: nothing may be left open.
  void CheckEnd();

  // Empty as long as all rules hold.
  const std::string& violation() const {
    return violation_.empty() ? checkpoints_.violation() : violation_;
  }
  const CheckpointChecker& checkpoints() const { return checkpoints_; }

  const std::vector<RecordCommit>& commits() const { return commits_; }
  Version decided() const { return decided_; }
  int64_t tasks() const { return tasks_; }
  int64_t ends(Outcome outcome) const {
    const auto it = ends_.find(outcome);
    return it == ends_.end() ? 0 : it->second;
  }
  // How often the limits were reached, so that tests can see they were.
  int64_t room_full() const { return room_full_; }
  int64_t window_full() const { return window_full_; }

 private:
  struct Open {
    Task task;
    bool sent = false;
    bool accepted = false;
  };

  void See(const RecordTask& action);
  void See(const SendTask& action);
  void See(const RecordEnd& action);
  void See(const SendCancel& action);
  void See(const SendVerdict& action);
  void See(const RecordCommit& action);
  void See(const SendDecision& action);
  void See(const SendEvaluate& action);
  void See(const EndSession&) {}
  void See(const RecordDigests&) {}
  void See(const RecordInstructionSet&) {}
  void See(const RecordInputs&) {}
  void See(const RecordComputeTime&) {}
  void See(const RecordEvaluation&) {}
  void See(const StoreManifest& action) { checkpoints_.See(action); }
  void See(const RemoveStored& action) { checkpoints_.See(action); }
  void See(const Announce&) {}
  void See(const FinishRun& action);
  void See(const EndGeneration& action);

  void SeeFold(const Fold& fold);
  void SeeCommit(const Commit& commit);
  void CheckWeights(const RecordCommit& commit);
  void Forget(const GradientKey& key);
  void Expect(bool holds, const std::string& rule);
  Version VersionAt(int64_t number) const;
  // Where a resumed run begins, all that was done then is in an update.
  void TakeAsCommitted(const ResumePoint& point);

  const CoordinatorOptions options_;
  const BatchGrid grid_;
  CheckpointChecker checkpoints_;

  std::map<GradientKey, Open> open_;
  std::set<GradientKey> ended_;
  std::map<GradientKey, Outcome> awaiting_verdict_;
  std::map<int64_t, GradientKey> live_of_worker_;
  std::map<int64_t, GradientKey> live_of_batch_;
  std::set<int64_t> committed_;
  std::vector<RecordCommit> commits_;
  std::optional<RecordCommit> undecided_;  // Recorded, decision not seen yet.
  std::vector<CommitEntry> folded_;        // Of the next version.

  int64_t decisions_ = 0;
  Version decided_;
  std::vector<int64_t> executed_;                      // By shard.
  std::map<int64_t, std::vector<GradientKey>> frees_;  // By decision.
  std::map<int64_t, Version> version_after_;           // By commit's number.
  std::set<GradientKey> room_;
  std::multiset<int64_t> pinned_;
  std::optional<Version> evaluating_;

  int64_t tasks_ = 0;
  std::map<Outcome, int64_t> ends_;
  int64_t room_full_ = 0;
  int64_t window_full_ = 0;
  bool finished_ = false;
  bool failed_ = false;
  std::string violation_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_TESTING_INVARIANT_CHECKER_H_

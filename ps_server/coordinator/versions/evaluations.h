#ifndef SLUICE_PS_SERVER_COORDINATOR_VERSIONS_EVALUATIONS_H_
#define SLUICE_PS_SERVER_COORDINATOR_VERSIONS_EVALUATIONS_H_

#include <cstdint>
#include <optional>

#include "absl/time/time.h"
#include "common/ids.h"

namespace sluice {

// When a version is to be evaluated, and which one is being evaluated: one at
// a time, of a version that the shards retain until the answer. When the
// evaluator is busy as the next one falls due, that one waits, and takes a
// later version.
//
// Not thread-safe: call from the coordinator.
class Evaluations {
 public:
  // One falls due each time `every_samples` more samples have been applied;
  // 0: none but the final one.
  // `due`: one is from the start.
  explicit Evaluations(double every_samples, bool due = false)
      : every_(every_samples), due_(due && every_samples > 0) {}

  struct Running {
    Version version;
    bool final = false;
    absl::Time since;
  };

  // One waits for the evaluator, or for a version.
  bool due() const { return due_; }

  // The samples applied rose from `before` to `after`.
  void SamplesApplied(int64_t before, int64_t after);
  // One is due and none is running.
  bool ShouldStart() const { return due_ && !running_.has_value(); }
  // The shards retain `version`. REQUIRES: none is running.
  void Start(Version version, bool final, absl::Time now);
  const std::optional<Running>& running() const { return running_; }

  // The answer for `version` came: what was running, or nothing when no such
  // evaluation is (a repeat, or one that was given up).
  std::optional<Running> Answer(Version version);
  // The evaluator is gone: what was running, if anything. It is due again.
  std::optional<Running> GiveUp();
  // What is running takes too long: how many have in a row, with this one.
  int Overrun() { return ++overruns_; }
  int overruns() const { return overruns_; }
  // What was running has lost its evaluator otherwise: likewise.
  int Lost() { return ++losses_; }
  // The one that is due, or `final`, is not made.
  void Skip(bool final) {
    due_ = false;
    overruns_ = losses_ = 0;
    final_done_ |= final;
  }

  // The final one was answered, or skipped.
  bool final_done() const { return final_done_; }

 private:
  const double every_;
  bool due_;
  bool final_done_ = false;
  int overruns_ = 0, losses_ = 0;  // Of the one that is due.
  std::optional<Running> running_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_VERSIONS_EVALUATIONS_H_

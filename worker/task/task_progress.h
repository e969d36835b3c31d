#ifndef SLUICE_WORKER_TASK_TASK_PROGRESS_H_
#define SLUICE_WORKER_TASK_TASK_PROGRESS_H_

#include <array>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/clock.h"

namespace sluice {

// The stages of a task, in order. kWait, for another member of the worker, may
// come before a forward or a backward pass.
enum class Stage { kPull, kForward, kBackward, kPush, kWait };

inline absl::string_view StageName(Stage stage) {
  switch (stage) {
    case Stage::kPull:
      return "pull";
    case Stage::kForward:
      return "forward";
    case Stage::kBackward:
      return "backward";
    case Stage::kPush:
      return "push";
    case Stage::kWait:
      return "wait";
  }
  return "";
}

// What travels beside the stages: weights and gradients over the network, and
// what a GPU computes with to its memory and back.
enum class Transfer { kPull, kPush, kToDevice, kToHost };

inline absl::string_view TransferName(Transfer transfer) {
  switch (transfer) {
    case Transfer::kPull:
      return "weights travel";
    case Transfer::kPush:
      return "gradient travels";
    case Transfer::kToDevice:
      return "copy to the device";
    case Transfer::kToHost:
      return "copy to the host";
  }
  return "";
}

// How far a task got, how long each stage took, and what travelled meanwhile.
// Whoever carries out a part of the task says here when it begins. Stages take
// turns: pull is what forward waits for weights, and what the mini-batch takes
// that is read meanwhile; push what is left of the push behind backward, and
// what the next one takes if that is read meanwhile.
//
// Not thread-safe: call from the compute thread.
class TaskProgress {
 public:
  struct Span {
    Stage stage;
    absl::Time begin, end;
  };

  struct Travel {
    Transfer transfer;
    absl::Time begin, end;
  };

  // The task begins now. `clock` must outlive it.
  explicit TaskProgress(Clock* clock = Clock::Real())
      : clock_(clock), since_(clock->Now()) {}

  // `next` begins now.
  void Enter(Stage next) {
    const absl::Time now = clock_->Now();
    spent_[static_cast<int>(stage_)] += now - since_;
    if (!spans_.empty() && spans_.back().stage == stage_) {
      spans_.back().end = now;
    } else {
      spans_.push_back({stage_, since_, now});
    }
    since_ = now;
    stage_ = next;
  }
  // The task ends now, in the stage it is in.
  void End() { Enter(stage_); }

  // Something was on its way.
  void Travelled(const Travel& travel) { travels_.push_back(travel); }
  // It begins to be, or is there, now. One of its kind at a time.
  void BeginCopy(Transfer transfer) {
    copy_begin_[static_cast<int>(transfer)] = clock_->Now();
  }
  void EndCopy(Transfer transfer) {
    Travelled(
        {transfer, copy_begin_[static_cast<int>(transfer)], clock_->Now()});
  }

  Stage stage() const { return stage_; }
  // The stages left so far, in order; after End all of them, at least one.
  const std::vector<Span>& spans() const { return spans_; }
  const std::vector<Travel>& travels() const { return travels_; }
  double seconds(Stage stage) const {
    return absl::ToDoubleSeconds(spent_[static_cast<int>(stage)]);
  }
  double compute_seconds() const {
    return seconds(Stage::kForward) + seconds(Stage::kBackward) +
           seconds(Stage::kWait);
  }
  double total_seconds() const {
    return seconds(Stage::kPull) + compute_seconds() + seconds(Stage::kPush);
  }

 private:
  Clock* clock_;
  Stage stage_ = Stage::kPull;
  absl::Time since_;
  std::array<absl::Duration, 5> spent_ = {};  // By stage.
  std::array<absl::Time, 4> copy_begin_;      // By transfer.
  std::vector<Span> spans_;
  std::vector<Travel> travels_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_TASK_TASK_PROGRESS_H_

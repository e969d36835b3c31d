#ifndef SLUICE_WORKER_TASK_PROGRESS_H_
#define SLUICE_WORKER_TASK_PROGRESS_H_

#include <array>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace sluice {

// The stages of a task, in order.
enum class Stage { kPull, kForward, kBackward, kPush };

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
// Stages take turns: pull is what forward waits for weights, and what the
// mini-batch takes that is read meanwhile; push what is left of the push behind
// backward.
//
// Not thread-safe: call from the thread that computes.
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

  explicit TaskProgress(absl::Time now) : since_(now) {}

  // `next` begins now.
  void Enter(Stage next, absl::Time now) {
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
  void End(absl::Time now) { Enter(stage_, now); }

  // Something was on its way.
  void Travelled(const Travel& travel) { travels_.push_back(travel); }

  Stage stage() const { return stage_; }
  // The stages left so far, in order; after End all of them, at least one.
  const std::vector<Span>& spans() const { return spans_; }
  const std::vector<Travel>& travels() const { return travels_; }
  double seconds(Stage stage) const {
    return absl::ToDoubleSeconds(spent_[static_cast<int>(stage)]);
  }
  double compute_seconds() const {
    return seconds(Stage::kForward) + seconds(Stage::kBackward);
  }
  double total_seconds() const {
    return seconds(Stage::kPull) + compute_seconds() + seconds(Stage::kPush);
  }

 private:
  Stage stage_ = Stage::kPull;
  absl::Time since_;
  std::array<absl::Duration, 4> spent_ = {};
  std::vector<Span> spans_;
  std::vector<Travel> travels_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_TASK_PROGRESS_H_

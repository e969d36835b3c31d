#include "worker/pipeline/turns.h"

namespace sluice {

int64_t Turns::Begin() {
  absl::MutexLock lock(&mu_);
  return begun_++;
}

bool Turns::TryTake(int64_t task) {
  absl::MutexLock lock(&mu_);
  if (!MayTake(task)) return false;
  return taken_ = true;
}

bool Turns::Take(int64_t task, const CancelToken& cancel) {
  bool has_it = false;
  const auto over = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    has_it = MayTake(task);
    return has_it || cancel.cancelled();
  };
  absl::MutexLock lock(&mu_);
  waiting_.insert(task);
  mu_.Await(absl::Condition(&over));
  waiting_.erase(task);
  taken_ |= has_it;
  return has_it;
}

void Turns::Give() {
  absl::MutexLock lock(&mu_);
  taken_ = false;
}

void Turns::Wake() {
  absl::MutexLock lock(&mu_);  // Its release has conditions looked at.
}

int Turns::waiting() {
  absl::MutexLock lock(&mu_);
  return static_cast<int>(waiting_.size());
}

void SlotTurn::Take() {
  has_it_ = turns_.TryTake(number_);
  if (has_it_) return;
  const Stage stage = progress_->stage();
  progress_->Enter(Stage::kWait);
  has_it_ = turns_.Take(number_, *cancel_);
  progress_->Enter(stage);
}

}  // namespace sluice

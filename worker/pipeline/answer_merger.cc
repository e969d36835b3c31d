// What was held of a task that never got its other answer (it was cancelled) is
// forgotten when an answer to a later one comes: keys go up.
#include "worker/pipeline/answer_merger.h"

#include <algorithm>

#include "common/key_proto.h"

namespace sluice {
namespace {

GradientKey KeyOf(const proto::ToCoordinator& answer) {
  return KeyFromProto(answer.has_ready() ? answer.ready().key()
                                         : answer.rejected().key());
}

proto::ToCoordinator Merge(const proto::Ready& own,
                           const proto::Ready& behind) {
  proto::ToCoordinator merged;
  proto::Ready& ready = *merged.mutable_ready();
  ready = own;
  for (const int64_t base : behind.shard_base()) ready.add_shard_base(base);
  ready.set_samples(behind.samples());
  ready.set_loss(behind.loss());
  ready.set_pull_seconds(std::max(own.pull_seconds(), behind.pull_seconds()));
  ready.set_compute_seconds(
      std::max(own.compute_seconds(), behind.compute_seconds()));
  ready.set_push_seconds(std::max(own.push_seconds(), behind.push_seconds()));
  return merged;
}

}  // namespace

void AnswerMerger::Put(const proto::ToCoordinator& answer, Held* side) {
  proto::ToCoordinator merged;
  {
    absl::MutexLock lock(&mu_);
    const GradientKey key = KeyOf(answer);
    if (key < task_) return;
    if (key > task_) {
      task_ = key;
      answered_ = false;
      own_.reset();
      behind_.reset();
    }
    *side = answer;
    if (answered_) return;
    if (answer.has_rejected()) {
      merged = answer;
    } else if (own_.has_value() && behind_.has_value()) {
      merged = Merge(own_->ready(), behind_->ready());
    } else {
      return;
    }
    answered_ = true;
  }
  send_(std::move(merged));
}

}  // namespace sluice

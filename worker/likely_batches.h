#ifndef SLUICE_WORKER_LIKELY_BATCHES_H_
#define SLUICE_WORKER_LIKELY_BATCHES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>

#include "common/ids.h"

namespace sluice {

// A guess at the mini-batches that a worker is given next, so that their
// samples can be read meanwhile. Workers of one speed take turns, in an order
// that changes. One that is faster than the others gets more, so its tasks are
// nearer to each other.
//
// Not thread-safe: call from the compute thread.
class LikelyBatches {
 public:
  // `batches_per_round`: mini-batches that all workers are given in turn.
  explicit LikelyBatches(int64_t batches_per_round)
      : stride_(static_cast<double>(batches_per_round)) {}

  // The first mini-batch of the likely next task, after one of `count` from
  // `first` on, which the worker has begun.
  BatchId After(BatchId first, int count) {
    constexpr double kWeight = 0.125;  // Of the newest, in the average.
    // One that another worker gave back does not count.
    if (last_.has_value() && first > *last_) {
      const auto stride = static_cast<double>(first - *last_);
      stride_ += kWeight * (stride - stride_);
    }
    last_ = first;
    const auto tasks = static_cast<int64_t>(std::round(stride_ / count));
    return BatchId(first.value() + count * std::max<int64_t>(1, tasks));
  }

 private:
  // From a task's first mini-batch to that of the next, a moving average.
  double stride_;
  std::optional<BatchId> last_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_LIKELY_BATCHES_H_

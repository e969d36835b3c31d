#ifndef SLUICE_COMMON_BATCH_GRID_H_
#define SLUICE_COMMON_BATCH_GRID_H_

#include <cstdint>

#include "common/ids.h"

namespace sluice {

// How the epochs of a training split are cut into mini-batches: which partition
// mini-batch b belongs to and how many samples it has. Both the schedule and
// the readers of samples use it, so they agree.
//
// Partition p holds consecutive samples; the first `train_samples % partitions`
// partitions hold one sample more than the others. The mini-batches of an epoch
// take turns: the k-th one belongs to partition k % partitions. Each
// partition's mini-batches are in order, and only its last one may be short.
//
// REQUIRES, for all methods: batches and indices are at least 0, and 0 <=
// partition < partitions().
//
// Immutable, therefore thread-safe.
class BatchGrid {
 public:
  // One partition means DYNAMIC sharding.
  // REQUIRES: batch_size >= 1, 1 <= partitions <= train_samples.
  BatchGrid(int64_t train_samples, int batch_size, int partitions);

  int partitions() const { return partitions_; }
  int64_t batches_per_epoch() const { return batches_per_epoch_; }

  // The samples of a mini-batch: `samples` of them, from position `first` of
  // the order in which `epoch` goes through `partition`. The order may be
  // shuffled, so a position is not a sample's number.
  struct Slice {
    int64_t epoch = 0;
    int partition = 0;
    int64_t first = 0;
    int64_t samples = 0;
  };
  Slice SliceOf(BatchId batch) const;

  // The partition is the samples [first, first + size) of the split.
  struct Partition {
    int64_t first = 0;
    int64_t size = 0;
  };
  Partition PartitionAt(int partition) const;

  // Number of mini-batches of `partition` below `end`, over all epochs.
  int64_t CountBefore(BatchId end, int partition) const;
  // The `index`-th mini-batch of `partition`, counted from 0.
  BatchId BatchAt(int64_t index, int partition) const;

 private:
  int64_t BatchesOf(int partition) const;  // Per epoch.

  int64_t train_samples_;
  int64_t batch_size_;
  int partitions_;
  int64_t batches_per_epoch_;
};

}  // namespace sluice

#endif  // SLUICE_COMMON_BATCH_GRID_H_

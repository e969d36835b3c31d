#ifndef SLUICE_COMMON_BATCH_GRID_H_
#define SLUICE_COMMON_BATCH_GRID_H_

#include <cstdint>

#include "common/ids.h"

namespace sluice {

// How the epochs of a training split are cut into mini-batches: which
// partition mini-batch b belongs to and how many samples it holds. The
// schedule and the readers of samples both ask here, so that they agree.
//
// Partition p holds consecutive samples; the first `train_samples %
// partitions` partitions hold one more than the others. The mini-batches of an
// epoch go round the partitions in turn (k-th of the epoch: partition k %
// partitions), each partition's in order; only its last one may be short.
//
// REQUIRES, in all methods: batches and indices are 0 or more, and
// 0 <= partition < partitions().
//
// Immutable, therefore thread-safe.
class BatchGrid {
 public:
  // One partition means DYNAMIC sharding.
  // REQUIRES: batch_size >= 1, 1 <= partitions <= train_samples.
  BatchGrid(int64_t train_samples, int batch_size, int partitions);

  int partitions() const { return partitions_; }
  int64_t batches_per_epoch() const { return batches_per_epoch_; }

  // Which samples make up a mini-batch: `samples` of them from position `first`
  // on in the order in which `epoch` goes through `partition`. That order may
  // be shuffled: a position is no sample.
  struct Slice {
    int64_t epoch = 0;
    int partition = 0;
    int64_t first = 0;
    int64_t samples = 0;
  };
  Slice SliceOf(BatchId batch) const;

  // Samples [first, first + size) of the split make up the partition.
  struct Partition {
    int64_t first = 0;
    int64_t size = 0;
  };
  Partition PartitionAt(int partition) const;

  // Mini-batches of `partition` below `end`, over all epochs.
  int64_t CountBefore(BatchId end, int partition) const;
  // The `index`-th mini-batch of `partition`, from 0.
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

// Everything is arithmetic on the mini-batch's number; no table is kept.
// Example: 9 samples, 2 partitions (of 5 and 4 samples), mini-batches of up to
// 4:
//
//   mini-batch      0      1      2      3      4      5
//   epoch           0      0      0      1      1      1
//   partition       0      1      0      0      1      0
//   positions     0-3    0-3      4    0-3    0-3      4
//
// Partition 0 has two mini-batches an epoch, partition 1 has one.
// CountBefore(3, 0) is 2, and BatchAt(2, 0) is mini-batch 3.
#include "common/batch_grid.h"

#include <algorithm>

namespace sluice {

BatchGrid::BatchGrid(int64_t train_samples, int batch_size, int partitions)
    : train_samples_(train_samples),
      batch_size_(batch_size),
      partitions_(partitions),
      batches_per_epoch_(0) {
  for (int p = 0; p < partitions_; ++p) batches_per_epoch_ += BatchesOf(p);
}

BatchGrid::Partition BatchGrid::PartitionAt(int partition) const {
  const int64_t small = train_samples_ / partitions_;
  const int64_t larger = train_samples_ % partitions_;
  return {.first = partition * small + std::min<int64_t>(partition, larger),
          .size = small + (partition < larger ? 1 : 0)};
}

int64_t BatchGrid::BatchesOf(int partition) const {
  return (PartitionAt(partition).size + batch_size_ - 1) / batch_size_;
}

BatchGrid::Slice BatchGrid::SliceOf(BatchId batch) const {
  // The larger partitions come first. So taking turns also works in the last
  // round, in which only they have a mini-batch left.
  const int64_t within = batch.value() % batches_per_epoch_;
  Slice slice;
  slice.epoch = batch.value() / batches_per_epoch_;
  slice.partition = static_cast<int>(within % partitions_);
  slice.first = within / partitions_ * batch_size_;
  slice.samples =
      std::min(batch_size_, PartitionAt(slice.partition).size - slice.first);
  return slice;
}

int64_t BatchGrid::CountBefore(BatchId end, int partition) const {
  const int64_t epochs = end.value() / batches_per_epoch_;
  const int64_t within = end.value() % batches_per_epoch_;
  const int64_t rounds = (within - partition + partitions_ - 1) / partitions_;
  return epochs * BatchesOf(partition) + std::max<int64_t>(0, rounds);
}

BatchId BatchGrid::BatchAt(int64_t index, int partition) const {
  const int64_t per_epoch = BatchesOf(partition);
  return BatchId(index / per_epoch * batches_per_epoch_ +
                 index % per_epoch * partitions_ + partition);
}

}  // namespace sluice

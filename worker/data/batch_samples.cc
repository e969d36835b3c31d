#include "worker/data/batch_samples.h"

#include "common/batch_grid.h"
#include "common/random.h"

namespace sluice {

std::vector<int64_t> BatchSamples(const BatchSampling& sampling,
                                  BatchId batch) {
  const BatchGrid grid(sampling.train_samples, sampling.batch_size,
                       sampling.partitions);
  const BatchGrid::Slice slice = grid.SliceOf(batch);
  const BatchGrid::Partition partition = grid.PartitionAt(slice.partition);
  // Each epoch of each partition has its own stream. There are fewer than 2^20
  // partitions and fewer than 2^43 epochs.
  const uint64_t stream =
      static_cast<uint64_t>(slice.epoch) << 20 | slice.partition;
  const Permutation order(sampling.seed, stream, partition.size);
  std::vector<int64_t> samples(slice.samples);
  for (int64_t i = 0; i < slice.samples; ++i) {
    const int64_t at = slice.first + i;
    samples[i] = partition.first +
                 (sampling.shuffle ? static_cast<int64_t>(order(at)) : at);
  }
  return samples;
}

}  // namespace sluice

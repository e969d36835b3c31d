#ifndef SLUICE_WORKER_DATA_BATCH_SAMPLES_H_
#define SLUICE_WORKER_DATA_BATCH_SAMPLES_H_

#include <cstdint>
#include <vector>

#include "common/ids.h"

namespace sluice {

// How an epoch is cut into mini-batches.
struct BatchSampling {
  uint64_t seed = 1;
  int64_t train_samples = 1;
  int batch_size = 1;
  bool shuffle = true;
  // Number of partitions of consecutive samples under STATIC sharding, 1 under
  // DYNAMIC. The mini-batches of an epoch take turns over the partitions.
  int partitions = 1;
};

// The samples of mini-batch `batch`, in order: a pure function of (seed,
// batch). The last mini-batch of an epoch may be short.
std::vector<int64_t> BatchSamples(const BatchSampling& sampling, BatchId batch);

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_BATCH_SAMPLES_H_

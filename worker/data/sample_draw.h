#ifndef SLUICE_WORKER_DATA_SAMPLE_DRAW_H_
#define SLUICE_WORKER_DATA_SAMPLE_DRAW_H_

#include <cstdint>

#include "common/ids.h"
#include "common/status_macros.h"

// What is drawn at random for a sample depends on (seed, mini-batch, position)
// only. So an image gets the same crop whichever worker computes its
// mini-batch, however the mini-batch is split into micro-batches, and when a
// run is replayed.
namespace sluice {

// The index of a sample's random numbers (common/random.h). A mini-batch has at
// most 2^20 samples (data.batch_size), and a run has fewer than 2^43
// mini-batches. REQUIRES: 0 <= position < 2^20.
inline uint64_t SampleIndex(BatchId batch, int64_t position) {
  constexpr int kPositionBits = 20;
  SLUICE_CHECK(position >= 0 && position < int64_t{1} << kPositionBits);
  return static_cast<uint64_t>(batch.value()) << kPositionBits |
         static_cast<uint64_t>(position);
}

// Uniform in 0..count-1: each within 2^-32 of 1 / count.
inline int64_t Below(uint32_t random, int64_t count) {
  return static_cast<int64_t>(uint64_t{random} * static_cast<uint64_t>(count) >>
                              32);
}

}  // namespace sluice

#endif  // SLUICE_WORKER_DATA_SAMPLE_DRAW_H_

#ifndef SLUICE_PS_SERVER_SHARD_OPTIMIZER_H_
#define SLUICE_PS_SERVER_SHARD_OPTIMIZER_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/parameter_layout.h"
#include "kernels/optimizer_kernels.h"
#include "proto/job.pb.h"
#include "ps_server/shard/aligned_floats.h"
#include "ps_server/shard/chunk_grid.h"

namespace sluice {

// The job's optimizer over one shard's range, with its state for every chunk.
//
// Not thread-safe: call from the exchange thread.
class Optimizer {
 public:
  // `job`: with defaults filled in.
  Optimizer(const proto::Optimizer& job, const ParameterLayout& layout,
            ParameterRange range, ChunkGrid grid);

  // State as before the first update.
  void Reset();

  // One step on one chunk: `updated` becomes `weights` moved by the weighted
  // sum of `gradients`, each of which holds this shard's whole range. `weights`
  // and `updated` hold the chunk; they may be the same memory.
  void Apply(double learning_rate, absl::Span<const float* const> gradients,
             absl::Span<const float> factors, int chunk, const float* weights,
             float* updated);

 private:
  // A part of the range whose tensors are decayed, or are not.
  struct Run {
    int64_t begin;  // Floats from the start of the range.
    int64_t end;
    bool decay;
  };

  void ApplySgd(double learning_rate, const Run& part,
                absl::Span<const float* const> gradients,
                absl::Span<const float> factors, int64_t chunk_begin,
                const float* weights, float* updated);

  // Constant after construction.
  const proto::Optimizer job_;
  const ChunkGrid grid_;
  std::vector<Run> runs_;  // Without gaps, in order.

  AlignedFloats velocity_;  // Of SGD with momentum: the range; else null.
  std::vector<const float*> shifted_;  // Kept to save allocations.
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_OPTIMIZER_H_

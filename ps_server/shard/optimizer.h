#ifndef SLUICE_PS_SERVER_SHARD_OPTIMIZER_H_
#define SLUICE_PS_SERVER_SHARD_OPTIMIZER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "common/ids.h"
#include "common/parameter_layout.h"
#include "kernels/optimizer_kernels.h"
#include "proto/job.pb.h"
#include "ps_server/shard/chunk.h"
#include "ps_server/shard/chunk_grid.h"

namespace sluice {

// The job's optimizer over one shard's range, with its state for every chunk.
// Running statistics, which are not trained, follow a rule of their own: a
// moving average of what the gradients carry, whatever the rate.
//
// Not thread-safe: call from the exchange thread.
class Optimizer {
 public:
  // `job`: with defaults filled in.
  Optimizer(const proto::Optimizer& job, const ParameterLayout& layout,
            ParameterRange range, ChunkGrid grid);

  // One update: its rate and its gradients, in summation order.
  struct Update {
    Version version;  // That it makes; 1 is the first.
    double learning_rate;
    // At least one, each this shard's range, and what each counts: in a sum,
    // and in a mean, where they add up to 1.
    absl::Span<const float* const> gradients;
    absl::Span<const float> factors;
    absl::Span<const float> shares;
  };

  // What a gradient of that weight counts in a mean, where the weights of its
  // update, added up in double in their order, are `total`.
  static float ShareOf(float weight, double total) {
    return static_cast<float>(weight / total);
  }
  // Adds the gradients up in `sum`, the whole range, which may be the first of
  // them. Where `sum` then takes their place, with a factor and share of 1,
  // Apply makes the same bits.
  void AddUp(const Update& gradients, float* sum);

  // What the arrays are called that `job` keeps, each of the size of the
  // weights: SGD's "velocity" (with momentum), Adagrad's "accumulator", Adam's
  // "mean" and "square".
  static std::vector<std::string> StateNames(const proto::Optimizer& job);
  static int StateArrays(const proto::Optimizer& job) {
    return static_cast<int>(StateNames(job).size());
  }

  // State as before the first update.
  void Reset();
  // State as it was held once: for each of StateNames the whole range.
  void Restore(const std::vector<std::vector<float>>& arrays);

  // One step on one chunk: `to` becomes `from` moved by the update. Both hold
  // the chunk; they may be the same memory. Call once per chunk and update: it
  // moves the state.
  void Apply(const Update& update, int chunk, const float* from, float* to);

  // The state as it is now: the chunks of each array. None of them changes
  // while it is held; updates take another in its place. They may be read, and
  // let go, on any thread.
  std::vector<std::vector<ChunkRef>> HoldState() const { return state_; }

 private:
  // A part of the range whose tensors are all treated alike.
  struct Run {
    int64_t begin;  // Floats from the start of the range.
    int64_t end;
    TensorFactors factors;
    std::optional<double> moving_average;  // Of statistics.
  };

  // A part of a chunk within one run, and where it lies in memory.
  struct Part {
    int64_t begin;  // Floats from the start of the range.
    int64_t size;
    TensorFactors factors;
    std::optional<double> moving_average;
    const float* from;
    float* to;
    int chunk;
    int64_t offset;  // Floats from the start of the chunk.
  };

  void ApplyPart(const Update& update, const Part& part);
  void ApplySgd(const proto::Sgd& sgd, const Update& update, const Part& part);
  void ApplyAdagrad(const Update& update, const Part& part);
  void ApplyAdam(const Update& update, const Part& part);
  // The update's gradients from the part's first float on, with what each
  // counts there.
  kernels::WeightedGradients GradientsOf(const Update& update,
                                         const Part& part);
  // Sees to it that nobody else holds the chunk. Its floats become undefined.
  void MakeUnique(ChunkRef* chunk);
  // That part of a state's array. REQUIRES: nobody else holds its chunk.
  float* State(int array, const Part& part);

  // Constant after construction.
  const proto::Optimizer job_;
  const ChunkGrid grid_;
  std::vector<Run> runs_;  // Without gaps, in order.

  // By array, then chunk.
  std::vector<std::vector<ChunkRef>> state_;
  ChunkPool
      pool_;  // All have the first chunk's size: each can take any's place.
  std::vector<const float*> shifted_;  // Kept to save allocations.
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_OPTIMIZER_H_

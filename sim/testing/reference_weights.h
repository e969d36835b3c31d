#ifndef SLUICE_SIM_TESTING_REFERENCE_WEIGHTS_H_
#define SLUICE_SIM_TESTING_REFERENCE_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "ps_server/coordinator/core/coordinator_options.h"
#include "ps_server/decisions/events.h"
#include "ps_server/shard/shard.h"

namespace sluice {

// The expected weights of every version. A gradient is the same number in all
// its floats and that number stands for its mini-batch, so one shard with one
// weight, executing the commit log without a network, knows all weights.
//
// Not thread-safe.
class ReferenceWeights {
 public:
  // A model whose weights are all 0 at version 0, on `shards` shards.
  static ParameterLayout Layout(int shards) { return Layout(100, shards); }
  static ShardOptions OptionsOf(const ParameterLayout& layout, int64_t shard,
                                int staged_gradients);
  static float GradientOf(int64_t first_batch) {
    return static_cast<float>(first_batch % 13 + 1);
  }
  // The weights of every version of a SYNC run, which do not depend on what
  // happens to the cluster. Computed without one.
  static std::vector<float> Undisturbed(const CoordinatorOptions& options);

  // `parent`: the generation that `options` resumes; null if it begins at
  // version 0.
  ReferenceWeights(const CoordinatorOptions& options,
                   const ReferenceWeights* parent);

  void Commit(const RecordCommit& commit);
  // Whether the version was made, or restored, in this generation.
  bool Has(int64_t version) const {
    return version >= first_ && version - first_ < std::ssize(arrays_);
  }
  // The value of every weight. REQUIRES: Has.
  float At(int64_t version) const { return ArraysAt(version)[0][0]; }

 private:
  // The weights, then the optimizer's state, one float each.
  using Arrays = std::vector<std::vector<float>>;

  static ParameterLayout Layout(int64_t floats, int shards);
  const Arrays& ArraysAt(int64_t version) const {
    return arrays_.at(static_cast<size_t>(version - first_));
  }
  void Keep();

  Shard shard_;
  const std::string secret_;
  const int64_t first_;  // Version.
  int64_t decisions_ = 0;
  std::vector<Arrays> arrays_;  // By version, starting at first_.
};

}  // namespace sluice

#endif  // SLUICE_SIM_TESTING_REFERENCE_WEIGHTS_H_

#ifndef SLUICE_SIM_TESTING_REFERENCE_WEIGHTS_H_
#define SLUICE_SIM_TESTING_REFERENCE_WEIGHTS_H_

#include <cstdint>
#include <vector>

#include "common/ids.h"
#include "ps_server/coordinator/coordinator_options.h"
#include "ps_server/coordinator/events.h"
#include "ps_server/shard/shard.h"

namespace sluice {

// Gradients that are the same number everywhere and tell the mini-batch they
// come from, and what the weights must then be: one shard of one weight
// executes what the commit log says, without a network.
//
// Not thread-safe.
class ReferenceWeights {
 public:
  // A model of `floats` weights, all 0 at version 0, on `shards` shards.
  static ParameterLayout Layout(int64_t floats, int shards);
  static ShardOptions OptionsOf(const ParameterLayout& layout, int64_t shard,
                                int staged_gradients);
  static float GradientOf(int64_t first_batch) {
    return static_cast<float>(first_batch % 13 + 1);
  }

  explicit ReferenceWeights(const CoordinatorOptions& options);

  void Commit(const RecordCommit& commit);
  // What every weight must be. REQUIRES: that version has been committed.
  float At(int64_t version) const { return weights_.at(version); }
  int64_t version() const { return static_cast<int64_t>(weights_.size()) - 1; }

 private:
  Shard shard_;
  uint64_t secret_;
  int64_t decisions_ = 0;
  std::vector<float> weights_;  // By version.
};

}  // namespace sluice

#endif  // SLUICE_SIM_TESTING_REFERENCE_WEIGHTS_H_

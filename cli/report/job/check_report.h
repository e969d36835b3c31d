#ifndef SLUICE_CLI_REPORT_JOB_CHECK_REPORT_H_
#define SLUICE_CLI_REPORT_JOB_CHECK_REPORT_H_

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "common/job/resolved_job.h"

namespace sluice {

// Bytes of one shard at most.
struct ShardMemory {
  // Newest version, max_held older ones, and one in a checkpoint.
  int64_t weights = 0;
  int64_t optimizer_state = 0;   // Twice with checkpoints.
  int64_t staged_gradients = 0;  // limits.staged_gradients slices.
  int64_t total() const { return weights + optimizer_state + staged_gradients; }
};

// Bytes of one worker at most, without the scratch of its libraries.
struct WorkerMemory {
  // Under a synchronous policy also the next version's, and with local steps
  // the copy that they move.
  int64_t weights = 0;
  int64_t gradient = 0;     // Twice with micro-batches or local steps.
  int64_t activations = 0;  // Less where layers work in place.
  // The samples of one forward pass, and of the next if a task has several.
  int64_t batch = 0;
  int64_t training_data = 0;
  int64_t total() const {
    return weights + gradient + activations + batch + training_data;
  }
};

// One member of a worker of several.
struct MemberReport {
  int stage = 0;
  std::string layers;        // "conv2d3 to relu6"
  int64_t floats = 0;        // Of its weights.
  double multiply_adds = 0;  // Of a sample's forward pass.
  WorkerMemory memory;
};

// What one update moves when all workers that may take part do. Policies that
// cancel move more: the parts of pushes that were cut short.
struct UpdateCost {
  int gradients = 0;          // Pushed and summed; the most where K changes.
  int least_gradients = 0;    // The least where K changes; else as `gradients`.
  int pulls = 0;              // Each is of all weights.
  int64_t push_bytes = 0;     // All workers to all shards, together.
  int64_t pull_bytes = 0;     // All shards to all workers, together.
  double per_epoch = 0;       // Updates of `gradients`; may span epochs.
  double most_per_epoch = 0;  // Updates of `least_gradients`.
};

// File descriptors that a process needs: its own, and one for each connection
// when all processes that may take part do.
struct DescriptorNeeds {
  int64_t lead = 0;    // A session and a bulk connection of each client.
  int64_t shard = 0;   // Any other.
  int64_t worker = 0;  // Or the evaluator.
  int64_t most() const { return std::max({lead, shard, worker}); }
};

DescriptorNeeds DescriptorsOf(const proto::Job& job);

// The learning rate of an update that has all its gradients.
struct RateReport {
  double first = 0;  // At the first update.
  // At the end of the warm-up, or without one at the start, of the updates with
  // the fewest and the most gradients.
  double least_after_warmup = 0;
  double after_warmup = 0;
};

// What follows from a job, as `sluice check` prints it. Pure.
struct CheckReport {
  // Shards that hold a part of each tensor, in the layout's order.
  std::vector<std::vector<int>> tensor_shards;
  std::vector<ShardMemory> shards;
  int64_t checkpoint_bytes = 0;       // Of one, whole; 0: the job has none.
  WorkerMemory worker;                // Of one process.
  std::vector<MemberReport> members;  // Empty: a worker is one process.
  int64_t evaluator_bytes = 0;        // At most; 0: the job has none.
  DescriptorNeeds descriptors;
  int64_t batches_per_epoch = 0;
  UpdateCost update;
  RateReport rate;
  // Mean staleness if all workers that may take part do, at equal speed and
  // with the K of version 0. 0 under the synchronous policies.
  double expected_staleness = 0;
  // It is only at most that, since sync.staleness keeps gradients from being as
  // stale as they would be.
  bool staleness_is_bounded = false;
  std::vector<std::string> warnings;
};

CheckReport MakeCheckReport(const ResolvedJob& job);

}  // namespace sluice

#endif  // SLUICE_CLI_REPORT_JOB_CHECK_REPORT_H_

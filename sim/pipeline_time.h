#ifndef SLUICE_SIM_PIPELINE_TIME_H_
#define SLUICE_SIM_PIPELINE_TIME_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/resolved_job.h"

namespace sluice {

// What a task takes that the members of a group compute together, in the order
// 1F1B with a flush after each mini-batch (docs/parallelism.md).
struct TaskUse {
  double seconds = 0;             // From its first pass to its last.
  std::vector<double> computing;  // Seconds in which each member computes.
  // Share of the members' time in which they do not.
  double Bubble() const;
};

// The stages of a group, and the links between its members. A worker of one
// process is one stage. Pure; immutable.
class PipelineTime {
 public:
  struct Stage {
    // Of the compute time of a worker of one process.
    double forward = 1.0 / 3, backward = 2.0 / 3;
    // Of one micro-batch's activations to the stage behind, and of their
    // gradient back; seconds. The link is free for the next one after that.
    double sending = 0;
  };
  // One process.
  PipelineTime() : PipelineTime({Stage()}, /*passes=*/1, /*latency=*/0) {}
  // `passes`: micro-batches of a mini-batch. `latency`: seconds from the end of
  // the sending until it has arrived. REQUIRES: stages, passes >= 1.
  PipelineTime(std::vector<Stage> stages, int passes, double latency);
  // Stages as delays.stage says, or else by their multiply-adds, of which a
  // third is forward: a backward pass makes two products where the forward pass
  // makes one. Links as delays.worker_bandwidth and the mean of delays.latency
  // say. The last micro-batch of a mini-batch counts as a whole one. Errors are
  // those of DelayModel::Create.
  static absl::StatusOr<PipelineTime> OfJob(const ResolvedJob& job);

  // A task of `batches` mini-batches, which a worker of one process computes in
  // `whole` seconds.
  TaskUse Task(double whole, int batches = 1) const;
  // Its `seconds` alone.
  double Seconds(double whole, int batches) const;

 private:
  double Batch(double whole) const;

  std::vector<Stage> stages_;
  int passes_;
  double latency_;
};

}  // namespace sluice

#endif  // SLUICE_SIM_PIPELINE_TIME_H_

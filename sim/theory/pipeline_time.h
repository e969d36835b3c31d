#ifndef SLUICE_SIM_THEORY_PIPELINE_TIME_H_
#define SLUICE_SIM_THEORY_PIPELINE_TIME_H_

#include <vector>

#include "absl/status/statusor.h"
#include "common/job/resolved_job.h"

namespace sluice {

// What a task takes that the members of a group compute together, in the order
// 1F1B with a flush after each mini-batch (docs/parallelism.md), while the
// group's other slots have tasks like it.
struct TaskUse {
  double seconds = 0;  // From its first pass to its last.
  double period = 0;   // From one task's end to the next one's, of any slot.
  // Seconds of a period in which each member computes.
  std::vector<double> computing;
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
    int replicas = 1;  // Slot f is computed by f mod replicas.
  };
  // One process.
  PipelineTime() : PipelineTime({Stage()}, /*passes=*/1, /*latency=*/0) {}
  // `passes`: micro-batches of a mini-batch. `latency`: seconds from the end of
  // the sending until it has arrived. REQUIRES: stages, passes, slots >= 1.
  PipelineTime(std::vector<Stage> stages, int passes, double latency,
               int slots = 1);
  // Stages as delays.stage says, or else by their multiply-adds, of which a
  // third is forward: a backward pass makes two products where the forward pass
  // makes one. Links as delays.worker_bandwidth and the mean of delays.latency
  // say. The last micro-batch of a mini-batch counts as a whole one. Errors are
  // those of DelayModel::Create.
  static absl::StatusOr<PipelineTime> OfJob(const ResolvedJob& job);

  // A task of `batches` mini-batches, which a worker of one process computes in
  // `whole` seconds.
  TaskUse Task(double whole, int batches = 1) const;

 private:
  friend class GroupSchedule;

  std::vector<Stage> stages_;
  int passes_;
  double latency_;
  int slots_;
};

// The tasks that one group has in hand, of as many slots as it has. A task's
// passes are made when their input is there and the stage's process is free of
// the tasks that began before it; so what begins later never holds it up.
//
// Cost O(passes x stages x passes of the other slots' tasks) for a task. Pure.
class GroupSchedule {
 public:
  // `time` must outlive it.
  explicit GroupSchedule(const PipelineTime* time);

  // `slot` begins a task at `now`, of `batches` mini-batches that a worker of
  // one process computes in `whole` seconds. Returns how many seconds later it
  // ends. REQUIRES: its task before that has ended; `now` does not go down.
  double Begin(int slot, double now, double whole, int batches = 1);
  // The slot's task ends now.
  void Cancel(int slot, double now);

 private:
  struct Busy {
    double begin, end;
    int slot;
  };
  using Calendar = std::vector<Busy>;  // Of one process, in order of time.

  double Batch(int slot, double now, double pass);
  // When the process can make a pass of `seconds`, from `earliest` on.
  static double FreeFrom(const Calendar& calendar, double earliest,
                         double seconds);

  const PipelineTime& time_;
  std::vector<std::vector<Calendar>> calendars_;  // By stage and replica.
};

}  // namespace sluice

#endif  // SLUICE_SIM_THEORY_PIPELINE_TIME_H_

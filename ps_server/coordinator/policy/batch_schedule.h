#ifndef SLUICE_PS_SERVER_COORDINATOR_POLICY_BATCH_SCHEDULE_H_
#define SLUICE_PS_SERVER_COORDINATOR_POLICY_BATCH_SCHEDULE_H_

#include <cstdint>
#include <deque>
#include <limits>
#include <optional>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "common/batch_grid.h"
#include "common/ids.h"
#include "proto/job.pb.h"

namespace sluice {

// `local_steps` consecutive mini-batches: what one task computes. Numbered
// from 0, running on across epochs; the last of a run may be shorter.
using BlockId = Id<struct BlockTag>;

// Which mini-batches are still to be computed, and which are in the model: the
// lowest number goes out first, what came back goes out again before anything
// new, and each block is done exactly once.
//
// A block is unissued, live (in one task), held (its gradient is ready) or
// done. Cost O(log(outstanding blocks)) per call, O(1) where nothing is said.
//
// Not thread-safe: call from the coordinator.
class BatchSchedule {
 public:
  // What a checkpoint stores: every block below `low_water_mark` is done, and
  // so are the `exceptions` above it, in order; nothing else is.
  struct Snapshot {
    BlockId low_water_mark;
    std::vector<BlockId> exceptions;

    bool operator==(const Snapshot&) const = default;
  };

  // The run is `epochs` long, rounded up to whole mini-batches; endless
  // without. What is `done` stays so, all else goes out again. REQUIRES:
  // local_steps >= 1, and 1 when the grid has several partitions; no block that
  // is done lies beyond the run.
  BatchSchedule(const BatchGrid& grid, int local_steps,
                std::optional<double> epochs, const Snapshot& done);
  BatchSchedule(const BatchGrid& grid, int local_steps,
                std::optional<double> epochs)
      : BatchSchedule(grid, local_steps, epochs, Snapshot()) {}

  static constexpr int64_t kEndless = std::numeric_limits<int64_t>::max() / 4;

  struct Block {
    BatchId first_batch;
    int batches = 1;
    int64_t samples = 0;
  };
  Block BlockAt(BlockId block) const;
  // Always 0 with one partition.
  int PartitionOf(BlockId block) const;
  int partitions() const { return grid_.partitions(); }

  // Blocks of the whole run; kEndless when nothing bounds it.
  int64_t total() const { return total_; }
  // Only blocks below `end` go out, until the next call (SYNC: those of one
  // version); before the first call all may.
  void LimitTo(BlockId end);
  // Leaves out for good what is unissued below `end`; returns how many
  // blocks.
  int64_t LeaveOutBelow(BlockId end);

  // Blocks that may go out now: of all partitions, of one.
  int64_t available() const;
  int64_t available(int partition) const;

  // Who computed a block before, newest last, and whether that gradient was
  // refused as bad: then somebody else must compute it, if there is somebody.
  struct Candidate {
    BlockId block;
    std::vector<WorkerId> holders;
    bool rejected = false;
  };
  // The block that goes out next in `partition`, after passing over the first
  // `passed_over` of those that came back.
  std::optional<Candidate> Next(int partition, int passed_over = 0) const;

  // REQUIRES: Next() may return `block`.
  void Issue(BlockId block, WorkerId worker);
  // Its gradient is ready. REQUIRES: live.
  void Hold(BlockId block);
  // It must be computed again. REQUIRES: live or held.
  void Return(BlockId block);
  // As Return, because the gradient was bad; returns how often that happened.
  int Reject(BlockId block);
  // As Return, because computing it took too long; returns how often that
  // happened.
  int Overrun(BlockId block);
  // How often it did.
  int overruns(BlockId block) const;
  // It is in the model. REQUIRES: held.
  void Done(BlockId block);
  // It is left out for good. REQUIRES: unissued.
  void LeaveOut(BlockId block);

  int64_t done() const { return done_; }  // Includes what was left out.
  bool finished() const { return done_ == total_; }

  Snapshot TakeSnapshot() const;

 private:
  enum class State { kReturned, kLive, kHeld };
  struct Outstanding {
    State state = State::kReturned;
    std::vector<WorkerId> holders;
    int rejections = 0;
    int overruns = 0;
  };
  struct Partition {
    int64_t issued = 0;  // Blocks that went out at least once.
    absl::btree_set<BlockId> returned;
  };

  int64_t FreshIn(int partition) const;
  BlockId NextFresh(int partition) const;
  // Begins where `done` ended.
  void Restore(const Snapshot& done);
  // Takes it out of what may go out.
  void TakeOut(BlockId block);
  void MarkDone(BlockId block);

  const BatchGrid grid_;
  const int local_steps_;
  int64_t total_batches_ = kEndless;
  int64_t total_ = kEndless;

  BlockId limit_;
  std::vector<Partition> partition_;
  int64_t issued_ = 0;    // Sum over the partitions.
  int64_t returned_ = 0;  // Sum over the partitions.
  absl::flat_hash_map<BlockId, Outstanding> outstanding_;

  int64_t done_ = 0;
  BlockId low_water_mark_;
  // Whether each block from the mark on is done; the first is not. With several
  // partitions that grows with how far one is ahead of another.
  std::deque<bool> done_above_;
};

// The mini-batches of a job whose training split has `train_samples`, and their
// schedule. REQUIRES: `job` is resolved; as BatchGrid's and BatchSchedule's.
BatchGrid JobGrid(const proto::Job& job, int64_t train_samples);
BatchSchedule JobSchedule(const proto::Job& job, int64_t train_samples,
                          const BatchSchedule::Snapshot& done = {});

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_POLICY_BATCH_SCHEDULE_H_

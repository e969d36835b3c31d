// Where each block of the run is. What holds between calls:
//
//  - The blocks of a partition go out in order, so one number says which have
//    been out: the first `issued`. Of those, each is done or in outstanding_.
//  - `returned` and returned_ name and count the outstanding ones that nobody
//    has; they have lower numbers than any that was never out, and go out
//    first.
//  - low_water_mark_ is the first block that is not done, and done_above_ tells
//    of it and of those above it. So memory grows with what is outstanding and
//    with how far the done reach above it, not with the run.
//
// Blocks 0, 1 and 2 are issued:
//
//   Hold and Done of 0   mark 1
//   Hold and Done of 2   mark 1, done_above_ {no, yes}
//   Return(1)            1 is the next to go out, before 3
//   TakeSnapshot         low-water mark 1, exceptions {2}: who begins there
//                        issues 1, then 3
#include "ps_server/coordinator/policy/batch_schedule.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "common/status_macros.h"

namespace sluice {
namespace {

// Holders of a block that are remembered: enough to keep it from going back
// and forth between a few slow workers, and no cost in a job of thousands.
constexpr size_t kRemembered = 4;

}  // namespace

BatchSchedule::BatchSchedule(const BatchGrid& grid, int local_steps,
                             std::optional<double> epochs, const Snapshot& done)
    : grid_(grid), local_steps_(local_steps), partition_(grid.partitions()) {
  SLUICE_CHECK(local_steps >= 1);
  SLUICE_CHECK(local_steps == 1 || grid.partitions() == 1);
  if (epochs.has_value()) {
    // The margin keeps 0.07 epochs of 100 mini-batches at 7, not 8. It is less
    // than a mini-batch in any run of fewer than 10^12.
    const double batches = *epochs * grid.batches_per_epoch();
    total_batches_ = static_cast<int64_t>(std::ceil(batches - 1e-12 * batches));
    total_ = (total_batches_ + local_steps_ - 1) / local_steps_;
  }
  limit_ = BlockId(total_);
  Restore(done);
}

// What lies below the last done block and is not done has been out before.
void BatchSchedule::Restore(const Snapshot& done) {
  low_water_mark_ = done.low_water_mark;
  done_ =
      low_water_mark_.value() + static_cast<int64_t>(done.exceptions.size());
  const BlockId end =
      done.exceptions.empty() ? low_water_mark_ : done.exceptions.back() + 1;
  SLUICE_CHECK(end.value() <= total_);
  done_above_.resize(end - low_water_mark_);
  for (BlockId block : done.exceptions) {
    done_above_[block - low_water_mark_] = true;
  }
  for (int p = 0; p < grid_.partitions(); ++p) {
    partition_[p].issued = grid_.partitions() == 1
                               ? end.value()
                               : grid_.CountBefore(BatchId(end.value()), p);
  }
  issued_ = end.value();
  for (BlockId block = low_water_mark_; block < end; ++block) {
    if (done_above_[block - low_water_mark_]) continue;
    outstanding_[block];  // Returned.
    partition_[PartitionOf(block)].returned.insert(block);
    ++returned_;
  }
}

BatchSchedule::Block BatchSchedule::BlockAt(BlockId block) const {
  Block result;
  result.first_batch = BatchId(block.value() * local_steps_);
  const int64_t left = total_batches_ - result.first_batch.value();
  result.batches = static_cast<int>(std::min<int64_t>(local_steps_, left));
  for (int i = 0; i < result.batches; ++i) {
    result.samples += grid_.SliceOf(result.first_batch + i).samples;
  }
  return result;
}

int BatchSchedule::PartitionOf(BlockId block) const {
  if (grid_.partitions() == 1) return 0;
  return grid_.SliceOf(BatchId(block.value())).partition;
}

void BatchSchedule::LimitTo(BlockId end) {
  limit_ = BlockId(std::min(end.value(), total_));
}

int64_t BatchSchedule::LeaveOutBelow(BlockId end) {
  int64_t left_out = 0;
  for (int p = 0; p < grid_.partitions(); ++p) {
    for (auto next = Next(p); next.has_value() && next->block < end;
         next = Next(p)) {
      LeaveOut(next->block);
      ++left_out;
    }
  }
  return left_out;
}

int64_t BatchSchedule::FreshIn(int partition) const {
  const int64_t below =
      grid_.partitions() == 1
          ? limit_.value()
          : grid_.CountBefore(BatchId(limit_.value()), partition);
  return below - partition_[partition].issued;
}

BlockId BatchSchedule::NextFresh(int partition) const {
  const int64_t position = partition_[partition].issued;
  if (grid_.partitions() == 1) return BlockId(position);
  return BlockId(grid_.BatchAt(position, partition).value());
}

int64_t BatchSchedule::available() const {
  return limit_.value() - issued_ + returned_;
}

int64_t BatchSchedule::available(int partition) const {
  return FreshIn(partition) +
         static_cast<int64_t>(partition_[partition].returned.size());
}

std::optional<BatchSchedule::Candidate> BatchSchedule::Next(
    int partition, int passed_over) const {
  const absl::btree_set<BlockId>& returned = partition_[partition].returned;
  if (passed_over < static_cast<int>(returned.size())) {
    const BlockId block = *std::next(returned.begin(), passed_over);
    const Outstanding& before = outstanding_.at(block);
    return Candidate{block, before.holders, before.rejections > 0};
  }
  if (passed_over > static_cast<int>(returned.size())) return std::nullopt;
  if (FreshIn(partition) == 0) return std::nullopt;
  return Candidate{NextFresh(partition), {}, false};
}

void BatchSchedule::Issue(BlockId block, WorkerId worker) {
  TakeOut(block);
  Outstanding& outstanding = outstanding_[block];
  outstanding.state = State::kLive;
  std::erase(outstanding.holders, worker);
  outstanding.holders.push_back(worker);
  if (outstanding.holders.size() > kRemembered) {
    outstanding.holders.erase(outstanding.holders.begin());
  }
}

void BatchSchedule::Hold(BlockId block) {
  Outstanding& outstanding = outstanding_.at(block);
  SLUICE_CHECK(outstanding.state == State::kLive);
  outstanding.state = State::kHeld;
}

void BatchSchedule::Return(BlockId block) {
  Outstanding& outstanding = outstanding_.at(block);
  SLUICE_CHECK(outstanding.state != State::kReturned);
  outstanding.state = State::kReturned;
  partition_[PartitionOf(block)].returned.insert(block);
  ++returned_;
}

int BatchSchedule::Reject(BlockId block) {
  Return(block);
  return ++outstanding_.at(block).rejections;
}

int BatchSchedule::Overrun(BlockId block) {
  Return(block);
  return ++outstanding_.at(block).overruns;
}

int BatchSchedule::overruns(BlockId block) const {
  const auto it = outstanding_.find(block);
  return it == outstanding_.end() ? 0 : it->second.overruns;
}

void BatchSchedule::Done(BlockId block) {
  SLUICE_CHECK(outstanding_.at(block).state == State::kHeld);
  MarkDone(block);
}

void BatchSchedule::LeaveOut(BlockId block) {
  TakeOut(block);
  MarkDone(block);
}

void BatchSchedule::TakeOut(BlockId block) {
  const int p = PartitionOf(block);
  if (partition_[p].returned.erase(block) == 1) {
    --returned_;
    return;
  }
  SLUICE_CHECK(block == NextFresh(p));
  ++partition_[p].issued;
  ++issued_;
}

void BatchSchedule::MarkDone(BlockId block) {
  outstanding_.erase(block);
  ++done_;
  const size_t above = block - low_water_mark_;
  if (above >= done_above_.size()) done_above_.resize(above + 1);
  done_above_[above] = true;
  while (!done_above_.empty() && done_above_.front()) {
    done_above_.pop_front();
    ++low_water_mark_;
  }
}

BatchSchedule::Snapshot BatchSchedule::TakeSnapshot() const {
  Snapshot snapshot;
  snapshot.low_water_mark = low_water_mark_;
  for (size_t i = 0; i < done_above_.size(); ++i) {
    if (done_above_[i]) snapshot.exceptions.push_back(low_water_mark_ + i);
  }
  return snapshot;
}

BatchGrid JobGrid(const proto::Job& job, int64_t train_samples) {
  const bool partitioned = job.data().sharding() == proto::Data::STATIC;
  return BatchGrid(train_samples, job.data().batch_size(),
                   partitioned ? job.cluster().workers() : 1);
}

BatchSchedule JobSchedule(const proto::Job& job, int64_t train_samples,
                          const BatchSchedule::Snapshot& done) {
  return BatchSchedule(JobGrid(job, train_samples), job.sync().local_steps(),
                       job.stop().has_epochs()
                           ? std::optional<double>(job.stop().epochs())
                           : std::nullopt,
                       done);
}

}  // namespace sluice

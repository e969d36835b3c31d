#include "ps_server/coordinator/core/check_resume_point.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/batch_grid.h"
#include "ps_server/coordinator/core/training_snapshot.h"
#include "ps_server/coordinator/policy/batch_schedule.h"

namespace sluice {
namespace {

// Tasks of the whole run.
int64_t TotalOf(const CoordinatorOptions& options) {
  const BatchGrid grid(options.train_samples, options.batch_size,
                       options.static_partitions ? options.workers : 1);
  return BatchSchedule(grid, options.sync.local_steps, options.stop.epochs)
      .total();
}

absl::Status CheckSense(const TrainingSnapshot& snapshot, int64_t total) {
  const auto wrong = [](const std::string& what) {
    return absl::InvalidArgumentError(
        absl::StrCat("the checkpoint's state of the run: ", what));
  };
  int64_t end = snapshot.schedule.low_water_mark.value();
  if (end < 0) return wrong(absl::StrCat("low-water mark ", end));
  for (BlockId block : snapshot.schedule.exceptions) {
    if (block.value() < end) {
      return wrong(absl::StrCat("exception ", block.value(), ", expected ", end,
                                " or more"));
    }
    end = block.value() + 1;
  }
  if (end > total) {
    return wrong(absl::StrCat("mini-batches of ", end,
                              " tasks are done, the job has ", total));
  }
  if (snapshot.round.value() < 0 || snapshot.round.value() > total) {
    return wrong(absl::StrCat("the next update begins with task ",
                              snapshot.round.value(), ", the job has ", total));
  }
  if (snapshot.totals.staleness_histogram.size() !=
      TrainingStats::kStalenessBins) {
    return wrong(absl::StrCat(
        "a histogram of ", snapshot.totals.staleness_histogram.size(),
        " bins, expected ", TrainingStats::kStalenessBins));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckResumePoint(const CoordinatorOptions& options) {
  if (!options.resume.has_value()) return absl::OkStatus();
  const ResumePoint& point = *options.resume;
  const TrainingSnapshot& snapshot = point.snapshot;
  const int64_t total = TotalOf(options);
  const int64_t done = snapshot.schedule.low_water_mark.value();
  const auto over = [&](const std::string& field, const std::string& reached) {
    return absl::FailedPreconditionError(absl::StrCat(
        "version ", point.version.value(), " is the run's end: ", reached,
        "; a larger ", field, " would let it go on"));
  };
  if (options.stop.epochs.has_value() && done >= total) {
    return over("stop.epochs", absl::StrCat(*options.stop.epochs, " epochs"));
  }
  if (options.stop.updates.has_value() &&
      point.version.value() >= *options.stop.updates) {
    return over("stop.updates",
                absl::StrCat(*options.stop.updates, " updates"));
  }
  if (options.stop.time.has_value() && snapshot.running >= *options.stop.time) {
    return over("stop.seconds", absl::FormatDuration(*options.stop.time));
  }
  return CheckSense(snapshot, total);
}

absl::Status CheckRecoveryPoint(const CoordinatorOptions& options) {
  if (!options.resume.has_value()) return absl::OkStatus();
  return CheckSense(options.resume->snapshot, TotalOf(options));
}

}  // namespace sluice

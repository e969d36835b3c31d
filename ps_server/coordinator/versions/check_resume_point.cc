#include "ps_server/coordinator/versions/check_resume_point.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "ps_server/coordinator/core/training_snapshot.h"
#include "ps_server/coordinator/policy/batch_schedule.h"

namespace sluice {
namespace {

// Tasks of the whole run.
int64_t TotalOf(const CoordinatorOptions& options) {
  return JobSchedule(options.job, options.train_samples).total();
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
  const proto::Stop& stop = options.job.stop();
  if (stop.has_epochs() && done >= total) {
    return over("stop.epochs", absl::StrCat(stop.epochs(), " epochs"));
  }
  if (stop.has_updates() && point.version.value() >= stop.updates()) {
    return over("stop.updates", absl::StrCat(stop.updates(), " updates"));
  }
  const absl::Duration time = absl::Seconds(stop.seconds());
  if (stop.has_seconds() && snapshot.running >= time) {
    return over("stop.seconds", absl::FormatDuration(time));
  }
  return CheckSense(snapshot, total);
}

absl::Status CheckRecoveryPoint(const CoordinatorOptions& options) {
  if (!options.resume.has_value()) return absl::OkStatus();
  return CheckSense(options.resume->snapshot, TotalOf(options));
}

absl::Status CheckLastTask(const proto::Job& before,
                           const CoordinatorOptions& options) {
  const BatchSchedule ended = JobSchedule(before, options.train_samples);
  const BatchSchedule goes_on = JobSchedule(options.job, options.train_samples);
  const BlockId last(ended.total() - 1);
  const BatchSchedule::Snapshot& done = options.resume->snapshot.schedule;
  const bool taken =
      done.low_water_mark > last ||
      (!done.exceptions.empty() && done.exceptions.back() == last);
  if (!taken || goes_on.total() <= last.value()) return absl::OkStatus();
  const int had = ended.BlockAt(last).batches;
  const int has = goes_on.BlockAt(last).batches;
  if (has <= had) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "version ", options.resume->version.value(),
      " has the last task of a run of ", before.stop().epochs(),
      " epochs, with ", had, " mini-batches of sync.local_steps: ",
      before.sync().local_steps(), "; a longer run would leave out ", has - had,
      " that follow. A new run can begin from its weights "
      "(model.init_from)"));
}

}  // namespace sluice

#ifndef SLUICE_CLI_PLOT_RUN_CURVES_H_
#define SLUICE_CLI_PLOT_RUN_CURVES_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "cli/plot/recorded_run.h"

namespace sluice {

// One point of a curve. The time is in seconds since the run's first task.
struct TrainingPoint {
  double seconds = 0;
  double version = 0;
  double loss = 0;
};
struct TestPoint {
  double seconds = 0;
  int64_t version = 0;
  std::optional<double> loss;
  std::optional<double> accuracy;
};

struct RunCurves {
  std::vector<TrainingPoint> training;
  std::vector<TestPoint> test;  // By version.
  // Applied gradients by staleness.
  std::vector<int64_t> staleness;
};

// The curves of a run.
//
//   training   the mean loss over the samples of each update. If there are more
//              than `max_points` updates, neighbours share a point: the mean of
//              their losses (over samples), times and versions.
//   test       each evaluation, at the time when its version was made. (The
//              result came later.)
//
// Without a commit log, training is the loss of each line of metrics.jsonl, and
// an evaluation stands at the time of its line. Values that are not finite are
// left out.
RunCurves CurvesOf(const RecordedRun& run, int max_points = 120);

// The mean over the applied gradients; 0 if there are none.
double MeanStaleness(const RunCurves& curves);

}  // namespace sluice

#endif  // SLUICE_CLI_PLOT_RUN_CURVES_H_

#include "cli/plot/run_curves.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "cli/plot/activity_timeline.h"

namespace sluice {
namespace {

// Sums over the updates that share one point.
struct Group {
  int updates = 0;
  double seconds = 0;
  double version = 0;
  double samples = 0;
  double loss = 0;  // Times samples.

  TrainingPoint Mean() const {
    return {seconds / updates, version / updates, loss / samples};
  }
};

void Add(const proto::LogRecord& record, double begin, Group* group) {
  ++group->updates;
  group->seconds += record.seconds() - begin;
  group->version += static_cast<double>(record.commit().version());
  for (const proto::LogEntry& entry : record.commit().entry()) {
    group->samples += static_cast<double>(entry.samples());
    group->loss += entry.loss() * static_cast<double>(entry.samples());
  }
}

std::vector<TrainingPoint> TrainingOf(const CommitLog& log, int max_points) {
  const double begin = BeginOf(log);
  const int64_t updates =
      std::count_if(log.records.begin(), log.records.end(),
                    [](const proto::LogRecord& r) { return r.has_commit(); });
  const int64_t together = (updates + max_points - 1) / max_points;
  std::vector<TrainingPoint> points;
  Group group;
  int64_t left = updates;
  for (const proto::LogRecord& record : log.records) {
    if (!record.has_commit()) continue;
    Add(record, begin, &group);
    --left;
    if (group.updates < together && left > 0) continue;
    const TrainingPoint mean = group.Mean();
    if (std::isfinite(mean.loss)) points.push_back(mean);
    group = {};
  }
  return points;
}

std::vector<int64_t> StalenessOf(const CommitLog& log) {
  std::vector<int64_t> histogram;
  for (const proto::LogRecord& record : log.records) {
    for (const proto::LogEntry& entry : record.commit().entry()) {
      if (entry.shard_base().empty()) continue;
      const int64_t staleness = record.commit().version() - 1 -
                                *std::min_element(entry.shard_base().begin(),
                                                  entry.shard_base().end());
      if (staleness < 0) continue;
      if (staleness >= static_cast<int64_t>(histogram.size())) {
        histogram.resize(staleness + 1);
      }
      ++histogram[staleness];
    }
  }
  return histogram;
}

}  // namespace

RunCurves CurvesOf(const RecordedRun& run, int max_points) {
  RunCurves curves;
  std::map<int64_t, double> made = {{0, 0.0}};  // Version -> seconds.
  if (run.log.has_value()) {
    const double begin = BeginOf(*run.log);
    for (const proto::LogRecord& record : run.log->records) {
      if (record.has_commit()) {
        made[record.commit().version()] = record.seconds() - begin;
      }
    }
    curves.training = TrainingOf(*run.log, max_points);
    curves.staleness = StalenessOf(*run.log);
  } else {
    for (const ProgressLine& line : run.metrics.progress) {
      curves.training.push_back(
          {line.seconds, static_cast<double>(line.version), line.loss});
    }
  }
  for (const EvaluationLine& line : run.metrics.evaluations) {
    const auto at = made.find(line.version);
    curves.test.push_back({at == made.end() ? line.seconds : at->second,
                           line.version, line.loss, line.accuracy});
  }
  std::stable_sort(curves.test.begin(), curves.test.end(),
                   [](const TestPoint& a, const TestPoint& b) {
                     return a.version < b.version;
                   });
  return curves;
}

double MeanStaleness(const RunCurves& curves) {
  double sum = 0;
  double count = 0;
  for (size_t s = 0; s < curves.staleness.size(); ++s) {
    sum += static_cast<double>(s) * static_cast<double>(curves.staleness[s]);
    count += static_cast<double>(curves.staleness[s]);
  }
  return count == 0 ? 0 : sum / count;
}

}  // namespace sluice

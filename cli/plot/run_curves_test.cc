#include "cli/plot/run_curves.h"

#include <limits>

#include "gtest/gtest.h"

namespace sluice {
namespace {

struct Gradient {
  int64_t base;
  double loss;
  int64_t samples = 10;
};

proto::LogRecord Task(double seconds) {
  proto::LogRecord record;
  record.set_seconds(seconds);
  record.mutable_task();
  return record;
}

proto::LogRecord Commit(double seconds, int64_t version,
                        const std::vector<Gradient>& gradients) {
  proto::LogRecord record;
  record.set_seconds(seconds);
  record.mutable_commit()->set_version(version);
  for (const Gradient& gradient : gradients) {
    proto::LogEntry* entry = record.mutable_commit()->add_entry();
    entry->add_shard_base(gradient.base + 1);
    entry->add_shard_base(gradient.base);
    entry->set_loss(gradient.loss);
    entry->set_samples(gradient.samples);
  }
  return record;
}

RecordedRun RunOf(const std::vector<proto::LogRecord>& records) {
  RecordedRun run;
  run.log.emplace();
  run.log->records = records;
  return run;
}

TEST(RunCurvesTest, TrainingLossIsTheMeanOverTheSamplesOfAnUpdate) {
  const RunCurves curves =
      CurvesOf(RunOf({Task(5), Commit(7, 1, {{0, 2.0, 30}, {0, 4.0, 10}})}));
  ASSERT_EQ(curves.training.size(), 1);
  EXPECT_EQ(curves.training[0].seconds, 2);
  EXPECT_EQ(curves.training[0].version, 1);
  EXPECT_EQ(curves.training[0].loss, 2.5);
}

TEST(RunCurvesTest, NeighboursShareAPointWhereThereAreMoreThanAllowed) {
  RecordedRun run = RunOf({Task(0)});
  for (int v = 1; v <= 7; ++v) {
    run.log->records.push_back(Commit(v, v, {{v - 1, 1.0 * v}}));
  }
  const RunCurves curves = CurvesOf(run, /*max_points=*/3);
  // Three, three and the one that is left.
  ASSERT_EQ(curves.training.size(), 3);
  EXPECT_EQ(curves.training[1].version, 5);
  EXPECT_EQ(curves.training[1].seconds, 5);
  EXPECT_EQ(curves.training[1].loss, 5);
  EXPECT_EQ(curves.training[2].version, 7);
  EXPECT_EQ(CurvesOf(run, 7).training.size(), 7);
}

TEST(RunCurvesTest, ALossThatIsNotFiniteIsLeftOut) {
  const double infinity = std::numeric_limits<double>::infinity();
  const RunCurves curves =
      CurvesOf(RunOf({Task(0), Commit(1, 1, {{0, infinity}}),
                      Commit(2, 2, {{1, 3.0}}), Commit(3, 3, {})}));
  ASSERT_EQ(curves.training.size(), 1);
  EXPECT_EQ(curves.training[0].version, 2);
}

TEST(RunCurvesTest, AnEvaluationStandsWhereItsVersionWasMade) {
  RecordedRun run =
      RunOf({Task(10), Commit(12, 1, {{0, 1.0}}), Commit(13, 2, {{1, 1.0}})});
  // Came in late, and in the wrong order.
  run.metrics.evaluations = {{4.5, 2, 0.5, 0.9}, {4.0, 0, 2.5, 0.1}};
  const RunCurves curves = CurvesOf(run);
  ASSERT_EQ(curves.test.size(), 2);
  EXPECT_EQ(curves.test[0].version, 0);
  EXPECT_EQ(curves.test[0].seconds, 0);
  EXPECT_EQ(curves.test[1].seconds, 3);
  EXPECT_EQ(curves.test[1].accuracy, 0.9);
}

TEST(RunCurvesTest, WithoutALogMetricsAloneAreDrawn) {
  RecordedRun run;
  run.metrics.progress = {{1, 10, 2.0}, {2, 20, 1.5}};
  run.metrics.evaluations = {{2.5, 15, 1.8, std::nullopt}};
  const RunCurves curves = CurvesOf(run);
  ASSERT_EQ(curves.training.size(), 2);
  EXPECT_EQ(curves.training[1].version, 20);
  ASSERT_EQ(curves.test.size(), 1);
  EXPECT_EQ(curves.test[0].seconds, 2.5);
  EXPECT_TRUE(curves.staleness.empty());
}

TEST(RunCurvesTest, StalenessIsCountedFromTheOldestShardsVersion) {
  const RunCurves curves = CurvesOf(
      RunOf({Task(0), Commit(1, 1, {{0, 1.0}}),
             Commit(2, 2, {{0, 1.0}, {1, 1.0}}), Commit(3, 3, {{0, 1.0}})}));
  EXPECT_EQ(curves.staleness, (std::vector<int64_t>{2, 1, 1}));
  EXPECT_EQ(MeanStaleness(curves), 0.75);
  EXPECT_EQ(MeanStaleness(RunCurves{}), 0);
}

}  // namespace
}  // namespace sluice

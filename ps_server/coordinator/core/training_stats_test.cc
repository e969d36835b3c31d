#include "ps_server/coordinator/core/training_stats.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(TrainingStatsTest, CountsEveryEndOnceInTotalAndByWorker) {
  TrainingStats stats;
  stats.Ended(WorkerId(0), Outcome::kApplied);
  stats.Ended(WorkerId(1), Outcome::kApplied);
  stats.Ended(WorkerId(1), Outcome::kCancelled);
  stats.Ended(WorkerId(1), Outcome::kDropped);
  stats.Ended(WorkerId(1), Outcome::kRejected);
  EXPECT_EQ(stats.counters().applied, 2);
  EXPECT_EQ(stats.counters().cancelled, 1);
  EXPECT_EQ(stats.GradientsOf(WorkerId(1)).applied, 1);
  EXPECT_EQ(stats.GradientsOf(WorkerId(1)).dropped, 1);
  EXPECT_EQ(stats.GradientsOf(WorkerId(1)).rejected, 1);
  EXPECT_EQ(stats.GradientsOf(WorkerId(9)).applied, 0);
}

TEST(TrainingStatsTest, AnUpdateHoldsTheEndsUpToIt) {
  TrainingStats stats;
  stats.Ended(WorkerId(0), Outcome::kCancelled);
  stats.Ended(WorkerId(0), Outcome::kApplied);
  stats.Applied(0, 4);
  stats.Updated(0.5, 0.1);
  stats.Ended(WorkerId(0), Outcome::kCancelled);
  stats.Ended(WorkerId(1), Outcome::kDropped);
  stats.Count(&RunCounters::tasks_overdue);
  EXPECT_EQ(stats.counters().cancelled, 2);
  const TrainingStats::Totals totals = stats.TotalsOfUpdate();
  EXPECT_EQ(totals.counters.applied, 1);
  EXPECT_EQ(totals.counters.cancelled, 1);
  EXPECT_EQ(totals.counters.dropped, 0);
  EXPECT_EQ(totals.counters.samples_applied, 4);
  EXPECT_EQ(totals.counters.tasks_overdue, 1);
  EXPECT_EQ(TrainingStats(totals).TotalsOfUpdate().counters.cancelled, 1);
}

TEST(TrainingStatsTest, TheLastBinOfTheStalenessHoldsAllAbove) {
  TrainingStats stats;
  for (int64_t staleness : {0, 2, 32, 33, 1000}) {
    stats.Ended(WorkerId(0), Outcome::kApplied);
    stats.Applied(staleness, 4);
  }
  EXPECT_EQ(stats.samples_applied(), 20);
  EXPECT_EQ(stats.staleness_histogram()[2], 1);
  EXPECT_EQ(stats.staleness_histogram().back(), 3);
  EXPECT_EQ(stats.mean_staleness(), (2 + 32 + 33 + 1000) / 5.0);
}

TEST(TrainingStatsTest, EachPhaseOfATaskIsInTheFirstBinThatHoldsIt) {
  TrainingStats stats;
  for (const double pull : {0.0, 0.001, 0.0011, 600.0}) {
    Delivery delivery;
    delivery.pull_seconds = pull;
    delivery.compute_seconds = 1;
    stats.Timed(delivery);
  }
  const PhaseTimes& pull = stats.task_times().pull;
  EXPECT_EQ(pull.histogram[0], 2);
  EXPECT_EQ(pull.histogram[1], 1);
  EXPECT_EQ(pull.histogram.back(), 1);
  EXPECT_DOUBLE_EQ(pull.seconds, 600.0021);
  EXPECT_EQ(stats.task_times().compute.histogram[10], 4) << "up to 1.024 s";
  EXPECT_EQ(stats.task_times().compute.seconds, 4);
  EXPECT_EQ(stats.task_times().push.histogram[0], 4);
}

TEST(TrainingStatsTest, TheSmoothedLossStartsAtTheFirstAndFollows) {
  TrainingStats stats;
  stats.Updated(4, 0.1);
  EXPECT_EQ(stats.loss(), 4);
  stats.Updated(2, 0.2);
  EXPECT_EQ(stats.loss(), 3);
  for (int i = 0; i < 500; ++i) stats.Updated(1, 0.3);
  EXPECT_NEAR(stats.loss(), 1, 1e-6);  // 0.95^480 of the start remains.
  EXPECT_EQ(stats.learning_rate(), 0.3);
}

TEST(TrainingStatsTest, AnUpdateWithoutAFiniteLossLeavesTheSmoothedOneAlone) {
  TrainingStats stats;
  EXPECT_TRUE(std::isnan(stats.loss())) << "no number is not 0";
  stats.Updated(std::nullopt, 0.1);
  EXPECT_TRUE(std::isnan(stats.loss()));
  stats.Updated(4, 0.1);
  EXPECT_EQ(stats.loss(), 4) << "the first that is finite counts fully";
  stats.Updated(std::nullopt, 0.2);
  EXPECT_EQ(stats.loss(), 4);
  EXPECT_EQ(stats.learning_rate(), 0.2);
}

TEST(TrainingStatsTest, LoggedValuesAreSmoothedEachByItself) {
  TrainingStats stats;
  stats.Logged({{"a", 4}, {"b", 10}});
  stats.Logged({{"a", 2}});
  EXPECT_EQ(stats.logged(), (LoggedValues{{"a", 3}, {"b", 10}}));
  for (int i = 0; i < 500; ++i) stats.Logged({{"a", 1}});
  EXPECT_NEAR(stats.logged()["a"], 1, 1e-6);
  EXPECT_EQ(stats.logged()["b"], 10);
}

TEST(TrainingStatsTest, ALoggedValueThatIsNotFiniteIsLeftOut) {
  TrainingStats stats;
  stats.Logged({{"a", NAN}, {"b", INFINITY}});
  EXPECT_EQ(stats.logged(), LoggedValues());
  stats.Logged({{"a", 2}});
  stats.Logged({{"a", NAN}});
  EXPECT_EQ(stats.logged(), (LoggedValues{{"a", 2}}));
}

TEST(TrainingStatsTest, WhatIsLoggedUnderTooManyNamesIsCounted) {
  TrainingStats stats;
  for (int i = 0; i < 66; ++i) stats.Logged({{absl::StrCat("v", i), i}});
  EXPECT_EQ(stats.logged().size(), 64);
  EXPECT_EQ(stats.counters().logged_left_out, 2);
  stats.Logged({{"v0", 5}});
  EXPECT_EQ(stats.counters().logged_left_out, 2);
}

}  // namespace
}  // namespace sluice

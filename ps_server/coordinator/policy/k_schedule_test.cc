#include "ps_server/coordinator/policy/k_schedule.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gtest/gtest.h"
#include "ps_server/coordinator/testing/driver.h"
#include "ps_server/coordinator/testing/jobs.h"

namespace sluice {
namespace {

proto::Sync Fixed(proto::Policy policy, int k) {
  proto::Sync sync;
  sync.set_policy(policy);
  sync.set_k(k);
  return sync;
}

proto::Sync Adaptive(proto::Policy policy, int k, int max_k,
                     int smoothing_updates) {
  proto::Sync sync = Fixed(policy, k);
  proto::AdaptiveK* adaptive = sync.mutable_k_schedule()->mutable_adaptive();
  adaptive->set_max_k(max_k);
  adaptive->set_smoothing_updates(smoothing_updates);
  return sync;
}

void AddChange(int64_t from_version, int k, proto::Sync* sync) {
  proto::KChange* change =
      sync->mutable_k_schedule()->mutable_by_version()->add_change();
  change->set_from_version(from_version);
  change->set_k(k);
}

// K after each of the updates with these losses.
std::vector<int> KsAfter(const proto::Sync& sync, int workers,
                         const std::vector<double>& losses) {
  KSchedule schedule(sync, workers);
  std::vector<int> ks;
  Version version;
  for (const double loss : losses) {
    schedule.Decided(++version, loss);
    ks.push_back(schedule.k());
  }
  return ks;
}

TEST(AdaptedKTest, OfTheBatchPoliciesItGrowsAsTheRootOfTheRatio) {
  for (const proto::Policy policy :
       {proto::K_BATCH_SYNC, proto::K_BATCH_ASYNC}) {
    EXPECT_EQ(AdaptedK(policy, 3, 1, 8), 3);
    EXPECT_EQ(AdaptedK(policy, 3, 4, 8), 6);
    EXPECT_EQ(AdaptedK(policy, 2, 2, 8), 3);  // 2.83
    EXPECT_EQ(AdaptedK(policy, 2, 100, 8), 20);
  }
}

TEST(AdaptedKTest, OfTheOthersItSolvesTheirEquation) {
  for (const proto::Policy policy : {proto::K_SYNC, proto::K_ASYNC}) {
    EXPECT_EQ(AdaptedK(policy, 2, 1, 8), 2);
    // K = 4 of 8: 16 / 4 = 4, which is 6 times 2 * 2 / 6.
    EXPECT_EQ(AdaptedK(policy, 2, 6, 8), 4);
    EXPECT_EQ(AdaptedK(policy, 2, 5.9, 8), 4);
    EXPECT_EQ(AdaptedK(policy, 2, 6.1, 8), 5);
  }
}

TEST(AdaptedKTest, OfTheOthersItEndsAtAllWorkers) {
  EXPECT_EQ(AdaptedK(proto::K_SYNC, 1, 1e6, 8), 8);
  EXPECT_EQ(AdaptedK(proto::K_SYNC, 1, HUGE_VAL, 8), 8);
  EXPECT_EQ(AdaptedK(proto::K_SYNC, 8, 1, 8), 8);
  EXPECT_EQ(AdaptedK(proto::K_SYNC, 8, 3, 8), 8);
}

TEST(AdaptedKTest, OfTheBatchPoliciesItEndsAtTheLargestNumber) {
  EXPECT_EQ(AdaptedK(proto::K_BATCH_SYNC, 1, HUGE_VAL, 8),
            std::numeric_limits<int>::max());
}

TEST(AdaptedKTest, RoundingAddsNoGradient) {
  for (int k0 = 1; k0 < 50; ++k0) {
    for (int k = k0; k < 50; ++k) {
      const double root = static_cast<double>(k) / k0;
      EXPECT_EQ(AdaptedK(proto::K_BATCH_SYNC, k0, root * root, 50), k);
      const double ratio = root * root * (50 - k0) / (50 - k);
      EXPECT_EQ(AdaptedK(proto::K_SYNC, k0, ratio, 50), k);
    }
  }
}

TEST(KScheduleTest, FixedItStays) {
  EXPECT_EQ(KsAfter(Fixed(proto::K_SYNC, 3), 4, {4, 1, 0.01}),
            (std::vector<int>{3, 3, 3}));
}

TEST(KScheduleTest, AChangeByVersionHoldsFromThatVersionOn) {
  proto::Sync sync = Fixed(proto::K_SYNC, 1);
  AddChange(2, 2, &sync);
  AddChange(4, 3, &sync);
  EXPECT_EQ(KSchedule(sync, 4).k(), 1);
  EXPECT_EQ(KsAfter(sync, 4, {1, 1, 1, 1, 1}),
            (std::vector<int>{1, 2, 2, 3, 3}));
  proto::Sync from_the_start = Fixed(proto::K_SYNC, 1);
  AddChange(0, 2, &from_the_start);
  EXPECT_EQ(KSchedule(from_the_start, 4).k(), 2);
}

TEST(KScheduleTest, AdaptiveItGrowsWithTheSmoothedLossBelowTheFirstMean) {
  const proto::Sync sync = Adaptive(proto::K_BATCH_SYNC, 2, 99, 2);
  // F0 = 4. Then F = 2, 1, 1: K = 2 sqrt(2), 4, 4.
  EXPECT_EQ(KsAfter(sync, 4, {5, 3, 0, 0, 1}),
            (std::vector<int>{2, 2, 3, 4, 4}));
}

TEST(KScheduleTest, AdaptiveItNeverFalls) {
  const proto::Sync sync = Adaptive(proto::K_BATCH_SYNC, 1, 99, 1);
  EXPECT_EQ(KsAfter(sync, 4, {16, 1, 4, 99, 1}),
            (std::vector<int>{1, 4, 4, 4, 4}));
}

TEST(KScheduleTest, AdaptiveItStopsAtItsBound) {
  EXPECT_EQ(
      KsAfter(Adaptive(proto::K_BATCH_ASYNC, 1, 3, 1), 4, {100, 1, 0, -1}),
      (std::vector<int>{1, 3, 3, 3}));
  EXPECT_EQ(KsAfter(Adaptive(proto::K_SYNC, 1, 3, 1), 4, {100, 0}),
            (std::vector<int>{1, 3}));
}

TEST(KScheduleTest, ALossThatIsNotFiniteSaysNothing) {
  const proto::Sync sync = Adaptive(proto::K_BATCH_SYNC, 1, 99, 1);
  EXPECT_EQ(KsAfter(sync, 4, {HUGE_VAL, 4, std::nan(""), HUGE_VAL, 1}),
            (std::vector<int>{1, 1, 1, 1, 2}));
}

// ---- In the coordinator ----

std::vector<size_t> UpdateSizes(const Driver& run) {
  std::vector<size_t> sizes;
  for (const auto& batches : run.CommittedBatches()) {
    sizes.push_back(batches.size());
  }
  return sizes;
}

TEST(KScheduleTest, UpdatesTakeAsManyGradientsAsItSays) {
  CoordinatorOptions options = SmallJob(proto::K_SYNC, 3, 1);
  AddChange(0, 2, options.job.mutable_sync());
  AddChange(2, 3, options.job.mutable_sync());
  AddChange(3, 1, options.job.mutable_sync());
  options.job.mutable_limits()->set_staged_gradients(6);
  Driver run(options);
  run.Start();
  EXPECT_EQ(run.State().k, 2);
  for (const int64_t worker : {0, 1, 0, 1, 0, 1, 2, 0}) {
    EXPECT_TRUE(run.Deliver(worker).ok());
  }
  EXPECT_EQ(UpdateSizes(run), (std::vector<size_t>{2, 2, 3, 1}));
  EXPECT_EQ(run.State().k, 1);
}

TEST(KScheduleTest, TheLossThatWorkersReportMovesIt) {
  CoordinatorOptions options = SmallJob(proto::K_BATCH_ASYNC, 2, 1);
  Set(&options,
      "sync { k_schedule { adaptive { max_k: 3 smoothing_updates: 1 } } }");
  options.job.mutable_limits()->set_staged_gradients(6);
  Driver run(options);
  run.Start();
  EXPECT_TRUE(run.Deliver(0).ok());
  run.ReportLoss(0.25);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(UpdateSizes(run), (std::vector<size_t>{1, 1, 2, 2}));
}

}  // namespace
}  // namespace sluice

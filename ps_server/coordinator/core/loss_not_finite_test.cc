// A gradient that is finite may come with a loss that is not.
#include <cmath>
#include <limits>

#include "gtest/gtest.h"
#include "ps_server/coordinator/testing/driver.h"
#include "ps_server/coordinator/testing/jobs.h"

namespace sluice {
namespace {

TEST(LossNotFiniteTest, OneThatIsNoNumberIsCountedAndNamedAndLeftOutOfTheLoss) {
  CoordinatorOptions job = SmallJob(proto::ASYNC, 2, 1);
  job.job.mutable_checkpoint()->set_every_updates(2);
  Driver run(job);
  run.Start();
  run.ReportLoss(0.5);
  EXPECT_TRUE(run.Deliver(0).ok());
  run.ReportLoss(std::nan(""));
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.version(), 2) << "the gradient itself is finite: it counts";
  EXPECT_EQ(run.State().loss, 0.5);
  EXPECT_EQ(run.State().counters.losses_not_finite, 1);
  EXPECT_EQ(run.TakeSnapshot().totals.loss, 0.5) << "also in a checkpoint";
  EXPECT_EQ(run.TakeSnapshot().totals.counters.losses_not_finite, 1);
  bool named = false;
  for (const Announce& said : run.All<Announce>()) {
    named |= said.text ==
             "event=loss_not_finite worker=1 mini_batch=1 version=0 loss=nan "
             "losses_not_finite_total=1";
  }
  EXPECT_TRUE(named);
}

TEST(LossNotFiniteTest, ALossIsNoNumberUntilOneHasBeen) {
  Driver run(SmallJob(proto::ASYNC, 1, 1));
  run.Start();
  EXPECT_TRUE(std::isnan(run.State().loss)) << "before the first";
  run.ReportLoss(std::nan(""));
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_TRUE(std::isnan(run.State().loss));
  run.ReportLoss(0.25);
  EXPECT_TRUE(run.Deliver(0).ok());
  EXPECT_EQ(run.State().loss, 0.25);
}

TEST(LossNotFiniteTest, AnUpdatesLossIsThatOfItsFiniteGradients) {
  Driver run(SmallJob(proto::K_SYNC, 2, 2));
  run.Start();
  run.ReportLoss(0.25);
  EXPECT_TRUE(run.Deliver(0).ok());
  run.ReportLoss(std::numeric_limits<double>::infinity());
  EXPECT_TRUE(run.Deliver(1).ok());
  EXPECT_EQ(run.version(), 1);
  EXPECT_EQ(run.State().loss, 0.25);
}

}  // namespace
}  // namespace sluice

#include "cli/launch/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <sstream>

#include "absl/strings/str_cat.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::Not;

const absl::Time kStart = absl::FromUnixSeconds(1000);

proto::JobStatus RunningStatus() {
  proto::JobStatus status;
  status.set_phase("running");
  status.set_epoch(1.25);
  status.set_epochs_total(5);
  status.set_version(390);
  status.set_loss(0.4123);
  status.set_test_loss(0.5);
  status.set_test_accuracy(0.83125);
  status.set_test_version(312);
  status.set_updates_per_second(13.11);
  status.set_samples_per_second(2516.4);
  status.set_mean_staleness(0.5);
  (*status.mutable_counters())["gradients.cancelled"] = 130;
  (*status.mutable_counters())["gradients.dropped"] = 2;
  status.set_seconds(15);
  status.set_progress(0.25);
  return status;
}

TEST(ProgressTest, ALineSaysAllThatIsAsked) {
  EXPECT_EQ(FormatProgress(RunningStatus()),
            "epoch 1.25/5  version 390  loss 0.4123  test 0.8313  "
            "13.1 updates/s  2516 samples/s  staleness 0.5  cancelled 130  "
            "dropped 2  45 s left");
}

TEST(ProgressTest, ARunThatHasNotBegunSaysForWhomItWaits) {
  proto::JobStatus status;
  status.set_phase("starting");
  status.set_waiting_for("worker 2");
  status.set_waiting_s(3.2);
  EXPECT_EQ(FormatProgress(status), "starting: waiting for worker 2 (3 s)");
}

TEST(ProgressTest, ARegressionShowsItsTestLoss) {
  proto::JobStatus status = RunningStatus();
  status.clear_test_accuracy();
  EXPECT_THAT(FormatProgress(status), HasSubstr("test loss 0.5"));
}

// A NaN that a processor makes has its sign bit set: printf shows "-nan".
TEST(ProgressTest, ALossThatIsNoNumberIsShownWithoutASign) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  proto::JobStatus status = RunningStatus();
  status.clear_test_accuracy();
  status.set_loss(std::copysign(nan, -1));
  status.set_test_loss(-std::numeric_limits<double>::infinity());
  EXPECT_THAT(FormatProgress(status), HasSubstr("loss NaN  test loss -inf"));
}

TEST(ProgressTest, UpdatesThatTakeMinutesHaveARate) {
  proto::JobStatus status = RunningStatus();
  status.set_updates_per_second(1. / 120);
  EXPECT_THAT(FormatProgress(status), HasSubstr("  0.0083 updates/s  "));
}

TEST(ProgressTest, TheLossOfARunThatDivergesStaysShort) {
  proto::JobStatus status = RunningStatus();
  status.set_loss(1e70);
  EXPECT_THAT(FormatProgress(status), HasSubstr("  loss 1e+70  "));
}

TEST(ProgressTest, TimesAreReadable) {
  EXPECT_EQ(FormatSeconds(4.6), "5 s");
  EXPECT_EQ(FormatSeconds(200), "3 min 20 s");
  EXPECT_EQ(FormatSeconds(7500), "2 h 05 min");
}

TEST(ProgressViewTest, PlainLinesComeEveryFewSecondsAndWithNews) {
  std::ostringstream out;
  ProgressView view(out, 0);
  proto::JobStatus status = RunningStatus();
  view.Show(status, kStart);
  view.Show(status, kStart + absl::Seconds(1));
  const std::string one = out.str();
  EXPECT_EQ(std::count(one.begin(), one.end(), '\n'), 1);
  status.set_test_version(400);
  view.Show(status, kStart + absl::Seconds(2));
  view.Show(status, kStart + absl::Seconds(2) + ProgressView::kPlainEvery);
  const std::string three = out.str();
  EXPECT_EQ(std::count(three.begin(), three.end(), '\n'), 3);
  EXPECT_THAT(three, Not(HasSubstr("\x1b")));
}

TEST(ProgressViewTest, WhyAWorkerHasLeftIsSaidOnceAMinute) {
  std::ostringstream out;
  ProgressView view(out, 0);
  proto::JobStatus status = RunningStatus();
  proto::WorkerStatus* worker = status.add_worker();
  worker->set_id(3);
  const auto said = [&](const std::string& loss, absl::Duration at) {
    worker->set_last_loss(loss);
    out.str("");
    view.Show(status, kStart + at);
    return out.str();
  };
  const std::string first = "left: the model process (pid 7) has failed";
  const std::string second = "left: the model process (pid 9) has failed";
  EXPECT_THAT(said("", {}), Not(HasSubstr("worker 3")));
  EXPECT_THAT(said(first, absl::Seconds(1)),
              HasSubstr(absl::StrCat("worker 3 ", first, "\n")));
  EXPECT_THAT(said(first, absl::Hours(1)), Not(HasSubstr("worker 3")));
  EXPECT_THAT(said(second, absl::Hours(1)),
              HasSubstr(absl::StrCat("worker 3 ", second, "\n")));
  EXPECT_THAT(said(first, absl::Hours(1) + absl::Seconds(59)),
              Not(HasSubstr("worker 3")));
  EXPECT_THAT(said(first, absl::Hours(1) + absl::Minutes(1)),
              HasSubstr("worker 3"));
  EXPECT_THAT(said("died: killed by signal 9 (Killed)", absl::Hours(2)),
              Not(HasSubstr("worker 3")));
}

TEST(ProgressViewTest, ATerminalsLineRenewsItself) {
  std::ostringstream out;
  ProgressView view(out, 200);
  view.Show(RunningStatus(), kStart);
  EXPECT_EQ(out.str(), "\r\x1b[J" + FormatProgress(RunningStatus()));
  view.Say("worker-1: exit status 1");
  EXPECT_THAT(out.str(),
              testing::EndsWith("left\r\x1b[Jworker-1: exit status 1\n"));
}

TEST(ProgressViewTest, ANarrowTerminalsLineIsFoldedAndRenewedWhole) {
  std::ostringstream out;
  ProgressView view(out, 80);
  view.Show(RunningStatus(), kStart);
  EXPECT_EQ(out.str(),
            "\r\x1b[J"
            "epoch 1.25/5  version 390  loss 0.4123  test 0.8313  "
            "13.1 updates/s\n2516 samples/s  staleness 0.5  cancelled 130  "
            "dropped 2  45 s left");
  out.str("");
  view.Show(RunningStatus(), kStart);
  EXPECT_THAT(out.str(), testing::StartsWith("\x1b[1A\r\x1b[Jepoch"));
}

}  // namespace
}  // namespace sluice

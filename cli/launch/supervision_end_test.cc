#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/launch/supervision.h"
#include "cli/launch/supervision_testing.h"

// How a run ends: interrupts, who outlives the lead, and programs that go on
// behind their loops.

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(SupervisionTest, TheFirstInterruptStopsAndTheSecondKills) {
  Supervision s(1);
  const auto first = s.OnInterrupt();
  EXPECT_TRUE(first.stop);
  EXPECT_FALSE(first.kill);
  EXPECT_TRUE(s.OnInterrupt().kill);
  s.OnEnd(Badly(Part::kLead, "ps_server-0"), kStart);
  EXPECT_EQ(s.ExitCode(), 130);
}

TEST(SupervisionTest, ARunStoppedByAnInterruptSucceeds) {
  Supervision s(1);
  s.OnInterrupt();
  s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
  EXPECT_EQ(s.ExitCode(), 0);
}

TEST(SupervisionTest, AShardThatComesAfterTheInterruptFailsNothing) {
  for (const bool lead_ends_well : {true, false}) {
    Supervision s(1);
    s.OnInterrupt();
    s.OnEnd(Badly(Part::kShard, "ps_server-1"), kStart);
    s.OnEnd((lead_ends_well ? Well : Badly)(Part::kLead, "ps_server-0"),
            kStart);
    EXPECT_EQ(s.ExitCode(), lead_ends_well ? 0 : 1);
    EXPECT_EQ(s.failure(), lead_ends_well ? "" : "ps_server-0: exit status 1");
  }
}

TEST(SupervisionTest, WhoWaitsInVainAfterAnInterruptIsKilledInSilence) {
  Supervision s(1);
  s.OnInterrupt();
  s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
  EXPECT_TRUE(s.OnTime(kStart + Supervision::kGrace).kill);
  EXPECT_THAT(s.OnEnd(Killed(Part::kWorker, "worker-0"), kStart).say,
              IsEmpty());
  EXPECT_EQ(s.ExitCode(), 0);
}

TEST(SupervisionTest, WhoOutlivesTheRunFailsItAndIsNamed) {
  Supervision s(2);
  s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
  s.OnEnd(Well(Part::kWorker, "worker-1"), kStart);
  EXPECT_TRUE(s.OnTime(kStart + Supervision::kGrace).kill);
  EXPECT_EQ(s.ExitCode(), 1);
  EXPECT_THAT(s.failure(), HasSubstr("did not end"));
  s.OnEnd(Killed(Part::kWorker, "worker-0"), kStart);
  // It ended by itself just then.
  s.OnEnd(Well(Part::kShard, "ps_server-1"), kStart);
  s.OnEnd(Killed(Part::kEvaluator, "evaluator"), kStart);
  EXPECT_EQ(s.failure(),
            "worker-0, evaluator did not end within 6s of the coordinator and "
            "had to be killed");
}

TEST(SupervisionTest, WhoHasNotHeardOfAGoodEndIsToldToLeaveBeforeHeIsKilled) {
  Supervision s(2);
  s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
  const absl::Time told = kStart + Supervision::kDismissal;
  EXPECT_FALSE(s.OnTime(told - absl::Milliseconds(1)).dismiss);
  const SuperviseActions actions = s.OnTime(told);
  EXPECT_TRUE(actions.dismiss);
  EXPECT_FALSE(actions.kill);
  EXPECT_FALSE(s.OnTime(told).dismiss) << "once";
  s.OnEnd(Well(Part::kWorker, "worker-0"), told);
  s.OnEnd(Well(Part::kWorker, "worker-1"), told);
  EXPECT_EQ(s.ExitCode(), 0);
}

TEST(SupervisionTest, ProgramsHaveTimeForWhatFollowsTheirLoops) {
  Supervision s(1, /*programs_end=*/absl::Seconds(30));
  s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
  EXPECT_THAT(s.OnTime(kStart + Supervision::kDismissal).say,
              ElementsAre(HasSubstr("may take 30s (limits.model_process_end")));
  EXPECT_THAT(s.OnTime(kStart + absl::Seconds(32)).say, IsEmpty());
  EXPECT_TRUE(s.OnTime(kStart + absl::Seconds(33)).dismiss);
  EXPECT_FALSE(s.OnTime(kStart + absl::Seconds(35)).kill);
  EXPECT_TRUE(s.OnTime(kStart + absl::Seconds(36)).kill);
  s.OnEnd(Killed(Part::kWorker, "worker-0"), kStart + absl::Seconds(36));
  EXPECT_EQ(s.failure(),
            "worker-0 did not end within 36s of the coordinator and had to be "
            "killed");
}

TEST(SupervisionTest, NoProgramIsAwaitedAfterALeadThatFailed) {
  Supervision s(1, /*programs_end=*/absl::Seconds(30));
  s.OnEnd(Badly(Part::kLead, "ps_server-0"), kStart);
  EXPECT_TRUE(s.OnTime(kStart + Supervision::kGrace).kill);
}

TEST(SupervisionTest, NoProgramIsAwaitedAfterAnInterrupt) {
  Supervision s(1, /*programs_end=*/absl::Seconds(30));
  s.OnInterrupt();
  s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
  EXPECT_TRUE(s.OnTime(kStart + Supervision::kDismissal).dismiss);
}

TEST(SupervisionTest, AnInterruptEndsTheWaitForPrograms) {
  Supervision s(1, /*programs_end=*/absl::Seconds(30));
  EXPECT_FALSE(s.OnInterrupt().dismiss) << "the lead still stops the run";
  Supervision late(1, /*programs_end=*/absl::Seconds(30));
  late.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
  EXPECT_TRUE(late.OnInterrupt().dismiss);
  late.OnEnd(Well(Part::kWorker, "worker-0"), kStart);
  EXPECT_EQ(late.ExitCode(), 0);
}

TEST(SupervisionTest, AShardThatIsKilledAfterAGoodEndFailsNothing) {
  Supervision s(1);
  s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
  s.OnEnd(Killed(Part::kShard, "ps_server-1"), kStart);
  EXPECT_EQ(s.ExitCode(), 0) << s.failure();
}

TEST(SupervisionTest, AWorkerThatIsStartedAgainAsTheRunEndsDoesNotFailIt) {
  Supervision s(2);
  s.OnProgress({.begun = true});
  EXPECT_THAT(s.OnEnd(Killed(Part::kWorker, "worker-0"), kStart).restart,
              ElementsAre("worker-0"));
  s.OnEnd(Well(Part::kWorker, "worker-1"), kStart + absl::Seconds(2));
  // It was told that the run is over.
  s.OnEnd(Badly(Part::kWorker, "worker-0"), kStart + absl::Seconds(2));
  s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart + absl::Seconds(3));
  EXPECT_EQ(s.ExitCode(), 0);
}

TEST(SupervisionTest, AWorkerThatIsStartedAgainTooLateToJoinDoesNotFailTheRun) {
  for (const auto settled : {absl::Seconds(1), Supervision::kSettled}) {
    Supervision s(1);
    s.OnEnd(Killed(Part::kWorker, "worker-0"), kStart);
    const absl::Time end = kStart + settled;
    s.OnEnd(Well(Part::kLead, "ps_server-0"), end);
    // It looks for a coordinator that is no more.
    EXPECT_TRUE(s.OnTime(end + Supervision::kGrace).kill);
    s.OnEnd(Killed(Part::kWorker, "worker-0"), end + Supervision::kGrace);
    EXPECT_EQ(s.ExitCode(), settled == absl::Seconds(1) ? 0 : 1);
  }
}

}  // namespace
}  // namespace sluice

#include "cli/supervision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const absl::Time kStart = absl::FromUnixSeconds(1000);

PartEnd Well(Part part, const std::string& name) {
  return {.part = part, .name = name, .ok = true, .how = "exit status 0"};
}
PartEnd Badly(Part part, const std::string& name) {
  return {.part = part, .name = name, .how = "exit status 1"};
}
PartEnd Killed(Part part, const std::string& name) {
  return {.part = part, .name = name, .killed = true, .how = "killed"};
}

TEST(SupervisionTest, ARunWhoseLeadEndsWellSucceeds) {
  Supervision s(1);
  EXPECT_FALSE(s.OnEnd(Well(Part::kWorker, "worker-0"), kStart).kill);
  s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
  EXPECT_EQ(s.ExitCode(), 0);
  EXPECT_EQ(s.failure(), "");
}

TEST(SupervisionTest, AWorkersDeathIsReportedAndTheRunGoesOn) {
  Supervision s(2);
  const auto actions = s.OnEnd(Badly(Part::kWorker, "worker-1"), kStart);
  EXPECT_THAT(actions.say, ElementsAre("worker-1: exit status 1"));
  EXPECT_FALSE(s.OnTime(kStart + absl::Hours(1)).kill);
  s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
  EXPECT_EQ(s.ExitCode(), 0);
}

TEST(SupervisionTest, TheLastWorkersDeathEndsTheRun) {
  Supervision s(2);
  s.OnEnd(Badly(Part::kWorker, "worker-1"), kStart);
  s.OnEnd(Badly(Part::kWorker, "worker-0"), kStart);
  EXPECT_FALSE(s.OnTime(kStart).kill);
  EXPECT_TRUE(s.OnTime(kStart + Supervision::kGrace).kill);
  EXPECT_EQ(s.ExitCode(), 1);
  EXPECT_EQ(s.culprit(), "worker-0");
  EXPECT_THAT(s.failure(), HasSubstr("no worker is left"));
}

TEST(SupervisionTest, AShardsDeathEndsTheRunAndNamesTheShard) {
  Supervision s(2);
  s.OnEnd(Badly(Part::kShard, "ps_server-1"), kStart);
  s.OnEnd(Badly(Part::kLead, "ps_server-0"), kStart);
  EXPECT_EQ(s.culprit(), "ps_server-1");
  EXPECT_THAT(s.failure(), HasSubstr("ps_server-1: exit status 1"));
  EXPECT_TRUE(s.OnTime(kStart + Supervision::kGrace).kill);
  EXPECT_EQ(s.ExitCode(), 1);
}

TEST(SupervisionTest, TheOthersFollowALeadThatDied) {
  Supervision s(1);
  s.OnEnd(Badly(Part::kLead, "ps_server-0"), kStart);
  EXPECT_FALSE(s.OnTime(kStart + Supervision::kGrace / 2).kill);
  EXPECT_TRUE(s.OnTime(kStart + Supervision::kGrace).kill);
  EXPECT_EQ(s.culprit(), "ps_server-0");
}

TEST(SupervisionTest, AnEvaluatorThatDiesIsStartedAgain) {
  Supervision s(1);
  EXPECT_FALSE(
      s.OnEnd(Killed(Part::kEvaluator, "evaluator"), kStart).restart_evaluator);
  const auto actions = s.OnTime(kStart + Supervision::kEvaluatorPause);
  EXPECT_TRUE(actions.restart_evaluator);
  EXPECT_THAT(actions.say, ElementsAre("evaluator: killed; starting it again"));
  EXPECT_FALSE(s.OnTime(kStart + absl::Hours(1)).restart_evaluator) << "once";
  s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
  EXPECT_EQ(s.ExitCode(), 0);
}

TEST(SupervisionTest, AnEvaluatorThatKeepsDyingFailsTheRunAtItsEnd) {
  Supervision s(1);
  absl::Time now = kStart;
  for (int i = 0; i < Supervision::kEvaluatorRestarts; ++i) {
    s.OnEnd(Killed(Part::kEvaluator, "evaluator"), now);
    now += Supervision::kEvaluatorPause;
    EXPECT_TRUE(s.OnTime(now).restart_evaluator);
  }
  s.OnEnd(Killed(Part::kEvaluator, "evaluator"), now);
  const auto later = s.OnTime(now + absl::Hours(1));
  EXPECT_FALSE(later.restart_evaluator);
  EXPECT_FALSE(later.kill);
  s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
  EXPECT_EQ(s.ExitCode(), 1);
  EXPECT_EQ(s.culprit(), "evaluator");
}

TEST(SupervisionTest, NoEvaluatorIsStartedOnceTheLeadHasEnded) {
  const absl::Time later = kStart + Supervision::kEvaluatorPause;
  Supervision before(1);
  before.OnEnd(Badly(Part::kLead, "ps_server-0"), kStart);
  before.OnEnd(Badly(Part::kEvaluator, "evaluator"), kStart);
  EXPECT_FALSE(before.OnTime(later).restart_evaluator);
  // It ended because the run failed, and was the first whose end was seen.
  Supervision after(1);
  after.OnEnd(Badly(Part::kEvaluator, "evaluator"), kStart);
  after.OnEnd(Badly(Part::kLead, "ps_server-0"), kStart);
  EXPECT_FALSE(after.OnTime(later).restart_evaluator);
  Supervision said(1);
  said.OnEnd(Badly(Part::kEvaluator, "evaluator"), kStart);
  said.OnFailure("diverged at version 7");
  EXPECT_FALSE(said.OnTime(later).restart_evaluator);
}

TEST(SupervisionTest, WhatTheCoordinatorSaysOfAFailureIsTheReason) {
  Supervision s(2);
  s.OnFailure("diverged at version 7");
  EXPECT_THAT(s.OnEnd(Badly(Part::kWorker, "worker-0"), kStart).say, IsEmpty());
  s.OnEnd(Badly(Part::kLead, "ps_server-0"), kStart);
  EXPECT_EQ(s.failure(), "diverged at version 7");
  EXPECT_EQ(s.ExitCode(), 1);
}

TEST(SupervisionTest, APartThatWasKilledIsToBlameBeforeOneThatEnded) {
  Supervision s(2);
  s.OnFailure("shard 1 is gone");
  s.OnEnd(Badly(Part::kLead, "ps_server-0"), kStart);
  EXPECT_EQ(s.culprit(), "");
  s.OnEnd(Killed(Part::kShard, "ps_server-1"), kStart);
  EXPECT_EQ(s.culprit(), "ps_server-1");
  EXPECT_EQ(s.failure(), "shard 1 is gone");
}

TEST(SupervisionTest, TheCoordinatorsLastWordExplainsAPartThatOnlyEnded) {
  Supervision ended(2);
  ended.OnEnd(Badly(Part::kShard, "ps_server-1"), kStart);
  ended.OnEnd(Badly(Part::kLead, "ps_server-0"), kStart);
  ended.OnLastWord("");
  EXPECT_THAT(ended.failure(), HasSubstr("ps_server-1"));
  ended.OnLastWord("diverged at version 7");
  EXPECT_EQ(ended.failure(), "diverged at version 7");

  Supervision killed(2);
  killed.OnEnd(Killed(Part::kShard, "ps_server-1"), kStart);
  killed.OnEnd(Badly(Part::kLead, "ps_server-0"), kStart);
  killed.OnLastWord("shard 1 is silent");
  EXPECT_THAT(killed.failure(), HasSubstr("ps_server-1"));
}

TEST(SupervisionTest, NobodyIsBlamedForBeingKilledByTheLauncher) {
  Supervision s(2);
  s.OnEnd(Badly(Part::kLead, "ps_server-0"), kStart);
  EXPECT_TRUE(s.OnTime(kStart + Supervision::kGrace).kill);
  s.OnEnd(Killed(Part::kShard, "ps_server-1"), kStart);
  EXPECT_EQ(s.culprit(), "ps_server-0");
}

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

TEST(SupervisionTest, WhoWaitsInVainAfterAnInterruptIsKilledInSilence) {
  Supervision s(1);
  s.OnInterrupt();
  s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
  EXPECT_TRUE(s.OnTime(kStart + Supervision::kGrace).kill);
  EXPECT_THAT(s.OnEnd(Killed(Part::kWorker, "worker-0"), kStart).say,
              IsEmpty());
  EXPECT_EQ(s.ExitCode(), 0);
}

TEST(SupervisionTest, AProcessThatOutlivesTheRunIsAFailure) {
  Supervision s(1);
  s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
  EXPECT_TRUE(s.OnTime(kStart + Supervision::kGrace).kill);
  EXPECT_EQ(s.ExitCode(), 1);
  EXPECT_THAT(s.failure(), HasSubstr("did not end"));
}

}  // namespace
}  // namespace sluice

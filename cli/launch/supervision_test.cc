#include "cli/launch/supervision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cli/launch/supervision_testing.h"

namespace sluice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(SupervisionTest, ARunWhoseLeadEndsWellSucceeds) {
  Supervision s(1);
  EXPECT_FALSE(s.OnEnd(Well(Part::kWorker, "worker-0"), kStart).kill);
  s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
  EXPECT_EQ(s.ExitCode(), 0);
  EXPECT_EQ(s.failure(), "");
}

TEST(SupervisionTest, AWorkerThatEndsByItselfIsReportedAndTheRunGoesOn) {
  Supervision s(2);
  s.OnProgress({.begun = true});
  const auto actions = s.OnEnd(Badly(Part::kWorker, "worker-1"), kStart);
  EXPECT_THAT(actions.say, ElementsAre("worker-1: exit status 1"));
  EXPECT_THAT(actions.restart, IsEmpty());
  const auto later = s.OnTime(kStart + absl::Hours(1));
  EXPECT_FALSE(later.kill);
  EXPECT_THAT(later.restart, IsEmpty()) << "it would say the same again";
  EXPECT_THAT(s.given_up(), ElementsAre("worker-1: exit status 1"));
  s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
  EXPECT_EQ(s.ExitCode(), 0);
}

TEST(SupervisionTest, ARunDoesNotBeginWithoutAWorkerThatIsGivenUp) {
  for (const auto& [part, name] : {std::pair(Part::kWorker, "worker-1"),
                                   std::pair(Part::kMember, "worker-1.1")}) {
    Supervision s(3);
    s.OnProgress({.begun = false});
    s.OnEnd(Badly(part, name), kStart);
    EXPECT_EQ(s.failure(),
              std::string(name) +
                  ": exit status 1; the run does not begin without it");
    EXPECT_EQ(s.culprit(), name);
    EXPECT_TRUE(s.OnTime(kStart + Supervision::kGrace).kill);
    EXPECT_EQ(s.ExitCode(), 1);
  }
}

TEST(SupervisionTest, AWorkerThatEndsOnceTheRunIsStoppedFailsNothing) {
  Supervision s(2);
  s.OnProgress({.begun = false});
  s.OnInterrupt();
  s.OnEnd(Badly(Part::kWorker, "worker-1"), kStart);
  EXPECT_EQ(s.failure(), "");
}

TEST(SupervisionTest, WorkersThatEndWithAFailedRunAreNoReasonForIt) {
  Supervision s(2);
  s.OnFailure("waited 60s for worker 1");
  s.OnEnd(Badly(Part::kWorker, "worker-0"), kStart);
  EXPECT_THAT(s.given_up(), IsEmpty());
}

TEST(SupervisionTest, AWorkerThatIsKilledIsStartedAgainAtOnceThenAfterAPause) {
  Supervision s(1);
  EXPECT_THAT(s.OnEnd(Killed(Part::kWorker, "worker-0"), kStart).restart,
              ElementsAre("worker-0"));
  EXPECT_THAT(s.OnEnd(Killed(Part::kWorker, "worker-0"), kStart).restart,
              IsEmpty());
  EXPECT_TRUE(s.RestartsPending());
  const auto actions = s.OnTime(kStart + Supervision::kPause);
  EXPECT_THAT(actions.restart, ElementsAre("worker-0"));
  EXPECT_THAT(actions.say, ElementsAre("worker-0: killed; starting it again"));
  EXPECT_FALSE(s.RestartsPending());
  EXPECT_THAT(s.OnTime(kStart + absl::Hours(1)).restart, IsEmpty()) << "once";
  s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
  EXPECT_EQ(s.ExitCode(), 0);
}

TEST(SupervisionTest, AWorkerThatKeepsDyingIsLeftDead) {
  Supervision s(2);
  s.OnProgress({.begun = true});
  absl::Time now = kStart;
  for (int i = 0; i < Supervision::kRestarts; ++i) {
    s.OnProgress({.version = 10 * i});  // That of the others.
    const auto first = s.OnEnd(Killed(Part::kWorker, "worker-0"), now).restart;
    now += Supervision::kPause;
    EXPECT_THAT(i == 0 ? first : s.OnTime(now).restart,
                ElementsAre("worker-0"));
  }
  EXPECT_THAT(s.OnEnd(Killed(Part::kWorker, "worker-0"), now).say,
              ElementsAre("worker-0: killed, for the 6th time in a row"));
  EXPECT_FALSE(s.RestartsPending());
  EXPECT_THAT(s.OnEnd(Badly(Part::kWorker, "worker-1"), now).restart,
              IsEmpty());
  EXPECT_THAT(s.failure(), HasSubstr("no worker is left"));
}

TEST(SupervisionTest, AWorkerThatLivesForAWhileBeginsItsCountAnew) {
  Supervision s(1);
  absl::Time now = kStart;
  bool settled = true;
  for (int i = 0; i < 3 * Supervision::kRestarts; ++i) {
    const auto at_once =
        s.OnEnd(Killed(Part::kWorker, "worker-0"), now).restart;
    now += Supervision::kPause;
    EXPECT_THAT(settled ? at_once : s.OnTime(now).restart,
                ElementsAre("worker-0"));
    settled = i % 3 == 0;
    if (settled) now += Supervision::kSettled;
  }
}

TEST(SupervisionTest, AServerThatIsKilledIsStartedAgainAtOnce) {
  for (const auto& [part, name] : {std::pair(Part::kShard, "ps_server-1"),
                                   std::pair(Part::kLead, "ps_server-0")}) {
    Supervision s(2);
    const auto actions = s.OnEnd(Killed(part, name), kStart);
    EXPECT_THAT(actions.restart, ElementsAre(name));
    EXPECT_EQ(s.failure(), "");
    EXPECT_FALSE(s.OnTime(kStart + absl::Hours(1)).kill);
    s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
    EXPECT_EQ(s.ExitCode(), 0);
  }
}

TEST(SupervisionTest, WhoWaitedInVainForTheCoordinatorIsStartedAgain) {
  Supervision s(2);
  s.OnProgress({.begun = true});
  for (PartEnd end :
       {Badly(Part::kShard, "ps_server-1"), Badly(Part::kWorker, "worker-0")}) {
    end.asks_for_restart = true;
    s.OnEnd(end, kStart);
  }
  s.OnTime(kStart + Supervision::kPause);
  EXPECT_FALSE(s.RestartsPending());
  EXPECT_EQ(s.failure(), "");
}

TEST(SupervisionTest, ALeadThatWaitedInVainForTheRunFolderEndsTheRun) {
  Supervision s(2);
  s.OnProgress({.begun = true});
  PartEnd end = Badly(Part::kLead, "ps_server-0");
  end.asks_for_restart = true;
  EXPECT_THAT(s.OnEnd(end, kStart).restart, IsEmpty());
  EXPECT_THAT(s.failure(), HasSubstr("ps_server-0"));
}

TEST(SupervisionTest, ALeadThatAnswersNobodyAtTheStartEndsTheRun) {
  Supervision s(2);
  for (const char* name : {"worker-0", "worker-1"}) {
    PartEnd end = Badly(Part::kWorker, name);
    end.asks_for_restart = true;
    s.OnEnd(end, kStart);
  }
  EXPECT_FALSE(s.RestartsPending());
  EXPECT_THAT(s.failure(), HasSubstr("no worker is left"));
}

TEST(SupervisionTest, AServerThatDiesAgainAndAgainEndsTheRun) {
  Supervision s(2);
  s.OnProgress({.version = 7, .checkpoint = {1, 5}});
  absl::Time now = kStart;
  EXPECT_THAT(s.OnEnd(Killed(Part::kShard, "ps_server-1"), now).restart,
              ElementsAre("ps_server-1"));
  for (int i = 1; i < Supervision::kRestarts; ++i) {
    now += absl::Hours(1);  // However long it takes to come that far again.
    s.OnProgress({.version = 7, .checkpoint = {1, 5}});
    EXPECT_THAT(s.OnEnd(Killed(Part::kShard, "ps_server-1"), now).restart,
                IsEmpty());
    now += Supervision::kPause;
    EXPECT_THAT(s.OnTime(now).restart, ElementsAre("ps_server-1"));
  }
  EXPECT_THAT(s.OnEnd(Killed(Part::kShard, "ps_server-1"), now).restart,
              IsEmpty());
  EXPECT_EQ(s.failure(), "ps_server-1: killed, for the 6th time in a row");
  EXPECT_TRUE(s.OnTime(now + Supervision::kGrace).kill);
  EXPECT_EQ(s.ExitCode(), 1);
}

TEST(SupervisionTest, AVersionOrACheckpointMoreBeginsAServersCountAnew) {
  const RunProgress start = {.version = 7, .checkpoint = {1, 5}};
  for (const RunProgress& further :
       {RunProgress{.version = 8},
        RunProgress{.version = 6, .checkpoint = {2, 4}}}) {
    Supervision s(2);
    s.OnProgress(start);
    s.OnEnd(Killed(Part::kLead, "ps_server-0"), kStart);
    s.OnEnd(Killed(Part::kLead, "ps_server-0"), kStart);
    s.OnTime(kStart + Supervision::kPause);
    s.OnProgress(further);
    EXPECT_THAT(s.OnEnd(Killed(Part::kLead, "ps_server-0"), kStart).restart,
                ElementsAre("ps_server-0"))
        << "at once, as the first time";
  }
}

TEST(SupervisionTest, NobodyIsStartedAgainInARunThatFailed) {
  Supervision s(2);
  s.OnEnd(Killed(Part::kWorker, "worker-0"), kStart);
  s.OnEnd(Killed(Part::kWorker, "worker-0"), kStart);
  s.OnFailure("diverged at version 7");
  EXPECT_THAT(s.OnTime(kStart + Supervision::kPause).restart, IsEmpty());
  EXPECT_FALSE(s.RestartsPending());
  EXPECT_THAT(s.OnEnd(Killed(Part::kShard, "ps_server-1"), kStart).restart,
              IsEmpty());
}

TEST(SupervisionTest, TheLastWorkersEndEndsTheRun) {
  Supervision s(2);
  s.OnProgress({.begun = true});
  s.OnEnd(Badly(Part::kWorker, "worker-1"), kStart);
  s.OnEnd(Badly(Part::kWorker, "worker-0"), kStart);
  EXPECT_FALSE(s.OnTime(kStart).kill);
  EXPECT_TRUE(s.OnTime(kStart + Supervision::kGrace).kill);
  EXPECT_EQ(s.ExitCode(), 1);
  EXPECT_EQ(s.culprit(), "worker-0");
  EXPECT_THAT(s.failure(), HasSubstr("no worker is left"));
}

TEST(SupervisionTest, WithAMemberThatIsGivenUpItsWorkerEnds) {
  Supervision s(2);
  s.OnProgress({.begun = true});
  // It is not started again, now that another one of its worker is given up.
  s.OnEnd(Killed(Part::kWorker, "worker-1"), kStart);
  s.OnEnd(Killed(Part::kWorker, "worker-1"), kStart);
  const auto actions = s.OnEnd(Badly(Part::kMember, "worker-1.1"), kStart);
  EXPECT_THAT(actions.say, ElementsAre("worker-1.1: exit status 1"));
  EXPECT_THAT(actions.part_with, ElementsAre(1));
  EXPECT_THAT(s.given_up(), ElementsAre("worker-1.1: exit status 1"));
  EXPECT_THAT(s.OnTime(kStart + Supervision::kPause).restart, IsEmpty());
  EXPECT_FALSE(s.RestartsPending());
  // How those end that were told to is no news.
  for (const PartEnd& told : {Killed(Part::kMember, "worker-1.2"),
                              Badly(Part::kMember, "worker-1.3")}) {
    const auto later = s.OnEnd(told, kStart);
    EXPECT_THAT(later.restart, IsEmpty());
    EXPECT_THAT(later.say, IsEmpty());
  }
  EXPECT_EQ(s.failure(), "") << "worker 0 is left";
  s.OnEnd(Badly(Part::kMember, "worker-0.2"), kStart);
  EXPECT_EQ(s.failure(), "worker-0.2: exit status 1; no worker is left");
  EXPECT_EQ(s.culprit(), "worker-0.2");
  // It was told to end, which does not make the run's end a good one.
  s.OnEnd(Well(Part::kWorker, "worker-0"), kStart);
  EXPECT_TRUE(s.OnTime(kStart + Supervision::kGrace).kill);
  EXPECT_EQ(s.ExitCode(), 1);
}

TEST(SupervisionTest, AWorkersFirstMemberThatIsGivenUpEndsTheOthers) {
  Supervision s(2);
  s.OnProgress({.begun = true});
  EXPECT_THAT(s.OnEnd(Badly(Part::kWorker, "worker-1"), kStart).part_with,
              ElementsAre(1));
  PartEnd told = Badly(Part::kMember, "worker-1.1");
  told.asks_for_restart = true;
  EXPECT_THAT(s.OnEnd(told, kStart).restart, IsEmpty());
  EXPECT_FALSE(s.RestartsPending());
  EXPECT_EQ(s.failure(), "");
}

// As one that SIGTERM has told to leave.
TEST(SupervisionTest, AMemberThatLeavesTakesItsWorkerWithIt) {
  for (const auto& [part, name] : {std::pair(Part::kMember, "worker-1.1"),
                                   std::pair(Part::kWorker, "worker-1")}) {
    Supervision s(2);
    s.OnProgress({.begun = true});
    const auto actions = s.OnEnd(Well(part, name), kStart);
    EXPECT_THAT(actions.part_with, ElementsAre(1)) << name;
    EXPECT_THAT(actions.say, IsEmpty()) << "a worker that leaves is no news";
    // Its other members wait for it, and end in vain.
    PartEnd rest = Badly(Part::kMember, "worker-1.2");
    rest.asks_for_restart = true;
    EXPECT_THAT(s.OnEnd(rest, kStart).restart, IsEmpty());
    EXPECT_FALSE(s.RestartsPending());
    s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
    EXPECT_EQ(s.ExitCode(), 0);
    EXPECT_THAT(s.OnEnd(Well(Part::kMember, "worker-0.1"), kStart).part_with,
                IsEmpty())
        << "the run has ended";
  }
}

TEST(SupervisionTest, WhereOthersMayJoinTheLastWorkersEndDoesNotEndTheRun) {
  Supervision s(3);  // Of whom the launcher has started two.
  s.OnProgress({.begun = true});
  s.OnEnd(Badly(Part::kWorker, "worker-1"), kStart);
  EXPECT_THAT(s.OnEnd(Badly(Part::kWorker, "worker-0"), kStart).say,
              ElementsAre(HasSubstr("worker-0")));
  EXPECT_EQ(s.failure(), "");
  EXPECT_FALSE(s.OnTime(kStart + Supervision::kGrace).kill);
}

TEST(SupervisionTest, AShardThatEndsByItselfEndsTheRunAndIsNamed) {
  Supervision s(2);
  s.OnEnd(Badly(Part::kShard, "ps_server-1"), kStart);
  s.OnEnd(Badly(Part::kLead, "ps_server-0"), kStart);
  EXPECT_EQ(s.culprit(), "ps_server-1");
  EXPECT_THAT(s.failure(), HasSubstr("ps_server-1: exit status 1"));
  EXPECT_TRUE(s.OnTime(kStart + Supervision::kGrace).kill);
  EXPECT_EQ(s.ExitCode(), 1);
}

TEST(SupervisionTest, TheOthersFollowALeadThatEnded) {
  Supervision s(1);
  s.OnEnd(Badly(Part::kLead, "ps_server-0"), kStart);
  EXPECT_FALSE(s.OnTime(kStart + Supervision::kGrace / 2).kill);
  EXPECT_TRUE(s.OnTime(kStart + Supervision::kGrace).kill);
  EXPECT_EQ(s.culprit(), "ps_server-0");
}

TEST(SupervisionTest, AnEvaluatorThatDiesIsStartedAgain) {
  Supervision s(1);
  EXPECT_THAT(s.OnEnd(Killed(Part::kEvaluator, "evaluator"), kStart).restart,
              IsEmpty());
  const auto actions = s.OnTime(kStart + Supervision::kPause);
  EXPECT_THAT(actions.restart, ElementsAre("evaluator"));
  EXPECT_THAT(actions.say, ElementsAre("evaluator: killed; starting it again"));
  EXPECT_THAT(s.OnTime(kStart + absl::Hours(1)).restart, IsEmpty()) << "once";
  s.OnEnd(Well(Part::kLead, "ps_server-0"), kStart);
  EXPECT_EQ(s.ExitCode(), 0);
}

// The evaluator dies until it is given up. Returns when that is.
absl::Time GiveUpTheEvaluator(Supervision* s) {
  absl::Time now = kStart;
  for (int i = 0; i < Supervision::kRestarts; ++i) {
    s->OnEnd(Killed(Part::kEvaluator, "evaluator"), now);
    now += Supervision::kPause;
    EXPECT_THAT(s->OnTime(now).restart, ElementsAre("evaluator"));
  }
  s->OnEnd(Killed(Part::kEvaluator, "evaluator"), now);
  return now;
}

// Nothing would ever begin, and the evaluator's pauses are over.
TEST(SupervisionTest, AnEvaluatorThatKeepsDyingBeforeTheRunBeginsEndsIt) {
  Supervision s(1);
  const absl::Time now = GiveUpTheEvaluator(&s);
  EXPECT_TRUE(s.OnTime(now + Supervision::kGrace).kill);
  EXPECT_EQ(s.ExitCode(), 1);
  EXPECT_THAT(s.failure(), HasSubstr("the run does not begin without it"));
}

TEST(SupervisionTest, AnEvaluatorWhoseFilesAreWrongIsNotStartedAgain) {
  Supervision s(1);
  PartEnd end = Badly(Part::kEvaluator, "evaluator");
  end.misused = true;
  s.OnEnd(end, kStart);
  EXPECT_THAT(s.OnTime(kStart + Supervision::kPause).restart, IsEmpty());
  EXPECT_TRUE(s.OnTime(kStart + Supervision::kGrace).kill);
}

TEST(SupervisionTest,
     AnEvaluatorThatKeepsDyingFailsTheRunAtItsEndAndNotBefore) {
  Supervision s(1);
  s.OnProgress({.begun = true});
  const absl::Time later = GiveUpTheEvaluator(&s) + absl::Hours(1);
  EXPECT_FALSE(s.OnTime(later).kill);
  for (const auto& [part, name] : {std::pair(Part::kShard, "ps_server-1"),
                                   std::pair(Part::kWorker, "worker-0")}) {
    EXPECT_THAT(s.OnEnd(Killed(part, name), later).restart, ElementsAre(name));
  }
  s.OnEnd(Well(Part::kLead, "ps_server-0"), later);
  EXPECT_EQ(s.ExitCode(), 1);
  EXPECT_EQ(s.culprit(), "evaluator");
  s.OnLastWord("diverged at version 7");
  EXPECT_EQ(s.failure(), "diverged at version 7");
}

TEST(SupervisionTest, NoEvaluatorIsStartedOnceTheLeadHasEnded) {
  const absl::Time later = kStart + Supervision::kPause;
  Supervision before(1);
  before.OnEnd(Badly(Part::kLead, "ps_server-0"), kStart);
  before.OnEnd(Badly(Part::kEvaluator, "evaluator"), kStart);
  EXPECT_THAT(before.OnTime(later).restart, IsEmpty());
  // It ended because the run failed, and was the first whose end was seen.
  Supervision after(1);
  after.OnEnd(Badly(Part::kEvaluator, "evaluator"), kStart);
  after.OnEnd(Badly(Part::kLead, "ps_server-0"), kStart);
  EXPECT_THAT(after.OnTime(later).restart, IsEmpty());
  Supervision said(1);
  said.OnEnd(Badly(Part::kEvaluator, "evaluator"), kStart);
  said.OnFailure("diverged at version 7");
  EXPECT_THAT(said.OnTime(later).restart, IsEmpty());
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
  EXPECT_EQ(ended.culprit(), "ps_server-1");
  ended.OnLastWord("evaluator: evaluation of version 9: disk full");
  EXPECT_EQ(ended.culprit(), "evaluator") << "its log says more";

  Supervision killed(2);
  for (int i = 0; i <= Supervision::kRestarts; ++i) {
    killed.OnEnd(Killed(Part::kShard, "ps_server-1"), kStart);
  }
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

}  // namespace
}  // namespace sluice

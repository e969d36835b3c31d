#include "ps_server/coordinator/members/membership.h"

#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

const absl::Time kStart = absl::UnixEpoch();
const Peer kWorker{Role::kWorker, 1};

class MembershipTest : public testing::Test {
 protected:
  static Membership::Options Options() {
    Membership::Options options;
    options.workers = 2;
    options.max_workers = 18;
    options.shards = 1;
    options.lease = absl::Seconds(5);
    return options;
  }
  absl::StatusOr<Membership::Joined> Join(
      Peer peer, int64_t resume = 0, int64_t seconds = 0,
      const std::string& process = "host:17") {
    return members_.Join(peer, Incarnation(resume), "", process,
                         kStart + absl::Seconds(seconds));
  }
  absl::Status AskForItsPlace(int64_t seconds, const std::string& process) {
    return Join(kWorker, 0, seconds, process).status();
  }
  void Hear(int64_t seconds) {
    EXPECT_TRUE(
        members_.Heard(kWorker, Incarnation(1), kStart + absl::Seconds(seconds))
            .ok());
  }
  void Disconnect(int64_t seconds) {
    members_.Disconnected(kWorker, Incarnation(1),
                          kStart + absl::Seconds(seconds));
  }

  Membership members_{Options()};
};

TEST_F(MembershipTest, EveryLifeHasItsOwnIncarnation) {
  EXPECT_EQ(Join(kWorker)->incarnation, Incarnation(1));
  EXPECT_TRUE(members_.Died(kWorker, Incarnation(1)));
  EXPECT_EQ(Join(kWorker)->incarnation, Incarnation(2));
  EXPECT_FALSE(members_.IsCurrent(kWorker, Incarnation(1)));
  EXPECT_TRUE(members_.IsCurrent(kWorker, Incarnation(2)));
  EXPECT_TRUE(absl::IsAborted(members_.Heard(kWorker, Incarnation(1), kStart)));
}

TEST_F(MembershipTest, AnIdWhoseProcessIsHeardOfIsTaken) {
  EXPECT_TRUE(Join(kWorker).ok());
  Hear(1);
  EXPECT_EQ(AskForItsPlace(1, "other:3").ToString(),
            "UNAVAILABLE: worker 1: held by host:17 until its lease ends in "
            "5s, unless it is heard of; other:3 is to ask again");
  EXPECT_TRUE(absl::IsUnavailable(AskForItsPlace(2, "other:3")));
  Hear(3);
  EXPECT_EQ(AskForItsPlace(3, "other:3").ToString(),
            "ALREADY_EXISTS: worker 1: taken by host:17, which is connected; "
            "not for other:3");
}

// As when a host vanishes, and its connection is never closed.
TEST_F(MembershipTest, WhoFallsSilentIsReplacedWhenItsLeaseIsOver) {
  EXPECT_TRUE(Join(kWorker).ok());
  Hear(1);
  for (int second = 2; second < 6; ++second) {
    EXPECT_TRUE(absl::IsUnavailable(AskForItsPlace(second, "other:3")));
  }
  EXPECT_EQ(members_.Expired(kStart + absl::Seconds(6)),
            std::vector<Peer>{kWorker});
  members_.LeaseOver(kWorker, Incarnation(1));
  EXPECT_EQ(Join(kWorker, 0, 6, "other:3")->incarnation, Incarnation(2));
}

// ---- Whom any number will do for ----

// Two workers and no more.
class AnyNumberTest : public testing::Test {
 protected:
  static Membership::Options Options() {
    Membership::Options options;
    options.workers = 2;
    options.lease = absl::Seconds(5);
    return options;
  }
  void Join(int64_t id, int64_t seconds = 0) {
    ASSERT_TRUE(members_
                    .Join({Role::kWorker, id}, Incarnation(0), "", "host:17",
                          kStart + absl::Seconds(seconds))
                    .ok());
  }
  void Hear(int64_t id, int64_t seconds) {
    EXPECT_TRUE(members_
                    .Heard({Role::kWorker, id}, Incarnation(1),
                           kStart + absl::Seconds(seconds))
                    .ok());
  }
  absl::StatusOr<int64_t> Free(int64_t wished, int64_t seconds = 0) {
    return members_.FreeWorker(wished, "new:9",
                               kStart + absl::Seconds(seconds));
  }

  Membership members_{Options()};
};

TEST_F(AnyNumberTest, IsTheLowestThatNoLivingProcessHas) {
  EXPECT_EQ(*Free(0), 0);
  Join(0);
  EXPECT_EQ(*Free(0), 1);
  members_.Left({Role::kWorker, 0}, Incarnation(1));
  EXPECT_EQ(*Free(0), 0);
}

TEST_F(AnyNumberTest, IsTheOneWishedForWhereThatIsFree) {
  EXPECT_EQ(*Free(1), 1);
  Join(1);
  EXPECT_EQ(*Free(1), 0);
  EXPECT_EQ(*Free(7), 0) << "there is none";
  EXPECT_EQ(*Free(-1), 0);
}

TEST_F(AnyNumberTest, MayBeOneBeyondTheJobsWorkersUpToTheMost) {
  Membership::Options options = Options();
  options.max_workers = 3;
  Membership members(options);
  for (int64_t id = 0; id < 3; ++id) {
    const auto given = members.FreeWorker(0, "new:9", kStart);
    ASSERT_EQ(*given, id);
    ASSERT_TRUE(
        members.Join({Role::kWorker, id}, Incarnation(0), "", "host:17", kStart)
            .ok());
  }
  EXPECT_FALSE(members.FreeWorker(0, "new:9", kStart).ok());
}

// Its process may resume the session.
TEST_F(AnyNumberTest, IsNotThatOfASuspectBeforeItsLeaseIsOver) {
  Join(0);
  Join(1);
  members_.Disconnected({Role::kWorker, 1}, Incarnation(1), kStart);
  Hear(0, 2);
  EXPECT_EQ(Free(0, 2).status().ToString(),
            "UNAVAILABLE: every worker's number is taken, 1 by host:17 until "
            "its lease ends in 3s, unless it is heard of; new:9 is to ask "
            "again");
  members_.LeaseOver({Role::kWorker, 1}, Incarnation(1));
  EXPECT_EQ(*Free(0, 5), 1);
}

TEST_F(AnyNumberTest, IsRefusedOnceEverybodyWhoHasOneWasHeardOf) {
  Join(0);
  Join(1);
  EXPECT_TRUE(absl::IsUnavailable(Free(0, 1).status()));
  Hear(0, 2);
  EXPECT_TRUE(absl::IsUnavailable(Free(0, 2).status()));
  Hear(1, 3);
  EXPECT_EQ(Free(0, 3).status().ToString(),
            "RESOURCE_EXHAUSTED: new:9: no number is left: the job takes at "
            "most 2 workers (cluster.workers is 2, cluster.max_workers 0), and "
            "2 live");
}

// Another one may have asked long ago, and ended.
TEST_F(MembershipTest, EachWhoAsksForAPlaceWaitsForAWordOfItsOwn) {
  EXPECT_TRUE(Join(kWorker).ok());
  EXPECT_TRUE(absl::IsUnavailable(AskForItsPlace(0, "other:3")));
  Hear(4);
  EXPECT_TRUE(absl::IsUnavailable(AskForItsPlace(4, "other:4")));
  Hear(8);
  EXPECT_TRUE(absl::IsAlreadyExists(AskForItsPlace(8, "other:4")));
  EXPECT_TRUE(absl::IsUnavailable(AskForItsPlace(8, "other:3")))
      << "it asked more than a lease ago";
}

TEST_F(MembershipTest, ANewLifeReplacesASuspect) {
  EXPECT_TRUE(Join(kWorker).ok());
  EXPECT_TRUE(members_.Disconnected(kWorker, Incarnation(1), kStart));
  EXPECT_EQ(members_.Get(kWorker).life, PeerLife::kSuspect);
  const auto joined = Join(kWorker);
  EXPECT_EQ(joined->incarnation, Incarnation(2));
  EXPECT_EQ(joined->replaced, Incarnation(1));
  EXPECT_EQ(members_.living(Role::kWorker), 1);
}

TEST_F(MembershipTest, ASuspectMayResume) {
  EXPECT_TRUE(Join(kWorker).ok());
  Disconnect(0);
  const auto joined = Join(kWorker, /*resume=*/1);
  EXPECT_TRUE(joined->resumed);
  EXPECT_EQ(joined->incarnation, Incarnation(1));
  EXPECT_EQ(members_.Get(kWorker).life, PeerLife::kAlive);
}

TEST_F(MembershipTest, WhatIsOverDoesNotResume) {
  EXPECT_TRUE(Join(kWorker).ok());
  members_.Died(kWorker, Incarnation(1));
  EXPECT_TRUE(absl::IsAborted(Join(kWorker, 1).status()));
  EXPECT_TRUE(Join(kWorker).ok());
  EXPECT_TRUE(absl::IsAborted(Join(kWorker, 1).status()));
}

TEST_F(MembershipTest, ALeaseRunsFromTheLastWordAlsoOfASuspect) {
  EXPECT_TRUE(Join(kWorker).ok());
  EXPECT_TRUE(
      members_.Heard(kWorker, Incarnation(1), kStart + absl::Seconds(3)).ok());
  Disconnect(0);
  EXPECT_TRUE(members_.Expired(kStart + absl::Seconds(7)).empty());
  EXPECT_EQ(members_.Expired(kStart + absl::Seconds(8)),
            std::vector<Peer>{kWorker});
}

TEST_F(MembershipTest, AnOldLifesLeaseDoesNotEndTheNewOne) {
  EXPECT_TRUE(Join(kWorker).ok());
  Disconnect(0);
  EXPECT_TRUE(Join(kWorker, 0, /*seconds=*/4).ok());
  EXPECT_TRUE(members_.Expired(kStart + absl::Seconds(6)).empty());
  EXPECT_EQ(members_.Expired(kStart + absl::Seconds(9)),
            std::vector<Peer>{kWorker});
}

TEST_F(MembershipTest, WhoJustFallsSilentIsCutOffAndMayComeBack) {
  EXPECT_TRUE(Join(kWorker).ok());
  EXPECT_TRUE(members_.LeaseOver(kWorker, Incarnation(1)));
  EXPECT_EQ(members_.Get(kWorker).life, PeerLife::kCutOff);
  EXPECT_EQ(members_.living(Role::kWorker), 0);
  EXPECT_TRUE(absl::IsAborted(Join(kWorker, 1).status()));
  EXPECT_EQ(Join(kWorker)->incarnation, Incarnation(2));
}

TEST_F(MembershipTest, WhoseConnectionWasClosedWhileItWasHeardOfIsDead) {
  EXPECT_TRUE(Join(kWorker).ok());
  Hear(3);
  Disconnect(4);
  members_.LeaseOver(kWorker, Incarnation(1));
  EXPECT_EQ(members_.Get(kWorker).life, PeerLife::kDead);
}

TEST_F(MembershipTest, WhoseConnectionBrokeAfterASilenceIsCutOff) {
  EXPECT_TRUE(Join(kWorker).ok());
  Disconnect(2);
  members_.LeaseOver(kWorker, Incarnation(1));
  EXPECT_EQ(members_.Get(kWorker).life, PeerLife::kCutOff);
}

TEST_F(MembershipTest, NamesTheMissing) {
  EXPECT_EQ(members_.Missing(Role::kWorker), "worker 0, worker 1");
  EXPECT_TRUE(Join(kWorker).ok());
  EXPECT_EQ(members_.Missing(Role::kWorker), "worker 0");
  members_.Left(kWorker, Incarnation(1));
  EXPECT_EQ(members_.Missing(Role::kWorker), "worker 0, worker 1");
  EXPECT_EQ(members_.Missing(Role::kShard), "shard 0");
  EXPECT_EQ(members_.Missing(Role::kEvaluator), "");
}

TEST_F(MembershipTest, WorkersMayJoinUpToTheMostAndShardsMayNot) {
  EXPECT_TRUE(Join({Role::kWorker, 17}).ok());
  EXPECT_EQ(Join({Role::kWorker, 18}).status().message(),
            "worker 18: the job takes at most 18 (cluster.max_workers), "
            "numbered from 0");
  EXPECT_TRUE(absl::IsInvalidArgument(Join({Role::kWorker, -1}).status()));
  EXPECT_EQ(Join({Role::kShard, 1}).status().message(),
            "shard 1: the job has 1, numbered from 0");
  EXPECT_TRUE(absl::IsInvalidArgument(Join({Role::kEvaluator, 0}).status()));
}

TEST(FixedMembershipTest, NobodyJoinsBeyondTheJobsNumberUnlessTheJobSaysSo) {
  Membership::Options options;
  options.workers = 2;
  Membership members(options);
  EXPECT_EQ(
      members.Join({Role::kWorker, 2}, Incarnation(0), "", "", kStart).status(),
      absl::InvalidArgumentError("worker 2: the job takes at most 2 "
                                 "(cluster.workers), numbered from 0"));
}

}  // namespace
}  // namespace sluice

#include "cli/chaos/director.h"

#include <signal.h>

#include <map>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr absl::Duration kLease = absl::Seconds(2);
constexpr absl::Duration kPatience = absl::Seconds(30);

// A run of two workers and two shards, as the director sees it.
class DirectorTest : public testing::Test {
 protected:
  DirectorTest() {
    status_.set_phase("running");
    status_.set_generation(1);
    for (int i = 0; i < 2; ++i) {
      status_.add_worker()->set_id(i);
      status_.mutable_worker(i)->set_state("computing");
      status_.add_shard()->set_id(i);
      status_.mutable_shard(i)->set_state("alive");
    }
  }

  Director Make(std::vector<Act> acts) {
    return Director(
        {.acts = std::move(acts), .lease = kLease, .patience = kPatience});
  }

  // A look `seconds` after the last one.
  Disturbance Look(Director& director, double seconds, bool answers = true) {
    now_ += absl::Seconds(seconds);
    return director.OnLook({.now = now_,
                            .running = running_,
                            .status = answers ? &status_ : nullptr});
  }
  Disturbance LookAt(Director& director, int64_t version, double seconds = 1) {
    status_.set_version(version);
    return Look(director, seconds);
  }
  // Its process has ended, and another one has taken its place.
  void Replace(const std::string& name) { running_[name] += 100; }

  absl::Time now_ = absl::UnixEpoch();
  std::map<std::string, pid_t> running_ = {{"ps_server-0", 1},
                                           {"ps_server-1", 2},
                                           {"evaluator", 3},
                                           {"worker-0", 4},
                                           {"worker-1", 5}};
  proto::JobStatus status_;
};

MATCHER_P2(SignalIs, name, number, "") {
  return arg.name == name && arg.number == number;
}

TEST_F(DirectorTest, AnActIsDoneOnceItsVersionIsThere) {
  Director director = Make({{.number = 1, .at_version = 10}});
  EXPECT_THAT(LookAt(director, 9).signals, IsEmpty());
  const Disturbance out = LookAt(director, 12, 1.5);
  EXPECT_THAT(out.signals, ElementsAre(SignalIs("worker-1", SIGKILL)));
  EXPECT_THAT(out.say, ElementsAre("   1.5 s  version 12 of generation 1: kill "
                                   "worker-1"));
  EXPECT_THAT(LookAt(director, 13).signals, IsEmpty());
  ASSERT_THAT(director.done(), SizeIs(1));
  EXPECT_EQ(director.done()[0].version, 12);
}

TEST_F(DirectorTest, ActsComeOneAtATimeInTheirOrder) {
  Director director = Make({{.number = 1, .at_version = 5},
                            {.kind = ActKind::kStop, .at_version = 5}});
  EXPECT_THAT(LookAt(director, 9).signals,
              ElementsAre(SignalIs("worker-1", SIGKILL)));
  EXPECT_THAT(LookAt(director, 9).signals,
              ElementsAre(SignalIs("worker-0", SIGSTOP)));
}

TEST_F(DirectorTest, AnActWaitsUntilTheCoordinatorSeesThePartAlive) {
  Director director = Make({{.part = Part::kShard, .number = 1}});
  for (const char* state : {"suspect", "dead", "cut off", "missing", "left"}) {
    status_.mutable_shard(1)->set_state(state);
    EXPECT_THAT(LookAt(director, 9).signals, IsEmpty()) << state;
  }
  status_.mutable_shard(1)->set_state("alive");
  status_.set_phase("starting");
  EXPECT_THAT(LookAt(director, 9).signals, IsEmpty());
  status_.set_phase("running");
  EXPECT_THAT(Look(director, 1, /*answers=*/false).signals, IsEmpty());
  EXPECT_THAT(LookAt(director, 9).signals,
              ElementsAre(SignalIs("ps_server-1", SIGKILL)));
}

TEST_F(DirectorTest, AMemberIsAliveWithItsWorker) {
  Director director =
      Make({{.part = Part::kMember, .number = NumberOfMember(1, 2)}});
  running_["worker-1.2"] = 6;
  status_.mutable_worker(1)->set_state("missing");
  EXPECT_THAT(LookAt(director, 9).signals, IsEmpty());
  status_.mutable_worker(1)->set_state("computing");
  EXPECT_THAT(LookAt(director, 9).signals,
              ElementsAre(SignalIs("worker-1.2", SIGKILL)));
}

TEST_F(DirectorTest, AServerIsLeftAloneUntilACheckpointIsWholeAfterTheLast) {
  Director director = Make({{.part = Part::kShard, .number = 1},
                            {.part = Part::kLead, .after_checkpoint = true},
                            {.part = Part::kLead, .after_checkpoint = true}});
  status_.mutable_checkpoint()->set_newest_version(20);
  EXPECT_THAT(LookAt(director, 25).signals, SizeIs(1));
  // The generation that lost the shard still answers.
  EXPECT_THAT(LookAt(director, 26).signals, IsEmpty());
  status_.set_generation(2);
  status_.mutable_checkpoint()->clear_newest_version();
  EXPECT_THAT(LookAt(director, 27).signals, IsEmpty());
  status_.mutable_checkpoint()->set_newest_version(30);
  EXPECT_THAT(LookAt(director, 31).signals,
              ElementsAre(SignalIs("ps_server-0", SIGKILL)));
  Replace("ps_server-0");
  // Of an act that ended no generation, the checkpoint must be a newer one.
  EXPECT_THAT(LookAt(director, 32).signals, IsEmpty());
  status_.mutable_checkpoint()->set_newest_version(40);
  EXPECT_THAT(LookAt(director, 41).signals, SizeIs(1));
}

TEST_F(DirectorTest, WhoIsStoppedGoesOnAfterItsTimeAlsoWhenNobodyAnswers) {
  Director director =
      Make({{.kind = ActKind::kStop, .part = Part::kLead, .leases = 1.5}});
  EXPECT_THAT(LookAt(director, 1).signals,
              ElementsAre(SignalIs("ps_server-0", SIGSTOP)));
  EXPECT_THAT(Look(director, 2.9, /*answers=*/false).signals, IsEmpty());
  EXPECT_THAT(Look(director, 0.1, /*answers=*/false).signals,
              ElementsAre(SignalIs("ps_server-0", SIGCONT)));
}

TEST_F(DirectorTest, WhoIsCutOffIsHealedAfterItsTime) {
  Director director = Make({{.kind = ActKind::kCut, .leases = 1}});
  EXPECT_THAT(LookAt(director, 1).cut, ElementsAre("worker-0"));
  EXPECT_THAT(LookAt(director, 2, 1.9).heal, IsEmpty());
  EXPECT_THAT(LookAt(director, 2, 0.1).heal, ElementsAre("worker-0"));
}

MATCHER_P2(StorageIs, server, fault, "") {
  return arg.server == server && arg.fault == fault;
}

TEST_F(DirectorTest, AStorageIsHealedAfterItsTimeAlsoWhenItsServerDied) {
  Director director = Make({{.kind = ActKind::kStorage,
                             .part = Part::kShard,
                             .number = 1,
                             .leases = 1,
                             .fault = StorageFault::kFull}});
  EXPECT_THAT(LookAt(director, 1).storage,
              ElementsAre(StorageIs(1, StorageFault::kFull)));
  Replace("ps_server-1");
  EXPECT_THAT(LookAt(director, 2, 1.9).storage, IsEmpty());
  const Disturbance out = LookAt(director, 2, 0.1);
  EXPECT_THAT(out.storage, ElementsAre(StorageIs(1, StorageFault::kNone)));
  EXPECT_THAT(out.say, ElementsAre(HasSubstr("  heal storage of ps_server-1")));
}

TEST_F(DirectorTest, AGenerationBehindTheNewestWholeCheckpointIsNamed) {
  Director director = Make({});
  status_.mutable_checkpoint()->set_newest_version(20);
  LookAt(director, 25);
  // The newest is of the generation before: this one has made none.
  status_.mutable_checkpoint()->clear_newest_version();
  for (int generation : {2, 3}) {
    status_.set_generation(generation);
    status_.mutable_recovery()->set_restored_version(20);
    LookAt(director, 21);
    EXPECT_EQ(director.rolled_back(), "");
  }
  status_.set_generation(4);
  status_.mutable_recovery()->set_restored_version(10);
  LookAt(director, 11);
  EXPECT_EQ(director.rolled_back(),
            "generation 4 went back to version 10; version 20 was whole");
}

TEST_F(DirectorTest, WhoEndsWithoutAnActIsCounted) {
  Director director = Make({{}});
  LookAt(director, 1);
  Replace("worker-0");  // As it was told to.
  LookAt(director, 2);
  EXPECT_EQ(director.unasked_ends(), 0);
  Replace("worker-0");
  running_.erase("evaluator");
  LookAt(director, 3);
  EXPECT_EQ(director.unasked_ends(), 2);
  LookAt(director, 4);
  EXPECT_EQ(director.unasked_ends(), 2);
}

TEST_F(DirectorTest, AnEndIsJudgedOnceTheRunIsSeenToGoOn) {
  Director director = Make({});
  LookAt(director, 1);
  Replace("ps_server-0");
  Look(director, 1, /*answers=*/false);
  status_.set_phase("recovering");
  LookAt(director, 1);
  EXPECT_EQ(director.unasked_ends(), 0);
  status_.set_phase("running");
  LookAt(director, 1);
  EXPECT_EQ(director.unasked_ends(), 1);
  // When the run ends, everybody does.
  status_.set_phase("finished");
  running_.clear();
  LookAt(director, 2);
  Look(director, 1, /*answers=*/false);
  EXPECT_EQ(director.unasked_ends(), 1);
}

TEST_F(DirectorTest, WhoHasNotEndedYetIsNotKilledAgain) {
  Director director = Make({{}, {.kind = ActKind::kStop}});
  LookAt(director, 1);
  EXPECT_THAT(LookAt(director, 2).signals, IsEmpty());
  Replace("worker-0");
  EXPECT_THAT(LookAt(director, 3).signals, SizeIs(1));
}

TEST_F(DirectorTest, WhoDiesWhileStoppedIsNotToldToGoOn) {
  Director director = Make({{.kind = ActKind::kStop, .leases = 1}});
  EXPECT_THAT(LookAt(director, 1).signals, SizeIs(1));
  Replace("worker-0");
  EXPECT_THAT(LookAt(director, 2, 2).signals, IsEmpty());
}

TEST_F(DirectorTest, ARunWithoutUpdatesHangsAndWhomItWaitsForIsNamed) {
  Director director = Make({{.number = 1, .at_version = 7}});
  EXPECT_EQ(LookAt(director, 7).failure, "");
  status_.set_waiting_for("shard 1");
  EXPECT_EQ(Look(director, 29.9).failure, "");
  EXPECT_EQ(Look(director, 0.1).failure,
            "no update for 30s after version 7 of generation 1; it waits for "
            "shard 1; the last act: kill worker-1");
}

TEST_F(DirectorTest, ACoordinatorThatDoesNotAnswerIsAHang) {
  Director director = Make({});
  LookAt(director, 7);
  EXPECT_THAT(Look(director, 30, /*answers=*/false).failure,
              HasSubstr("; the coordinator does not answer"));
}

TEST_F(DirectorTest, TheTimeThatSomebodyIsStoppedIsNoHang) {
  Director director = Make({{.kind = ActKind::kStop, .leases = 10}});
  LookAt(director, 1);
  EXPECT_EQ(LookAt(director, 1, 49.9).failure, "");
  EXPECT_THAT(LookAt(director, 1, 0.1).failure, HasSubstr("no update for 30s"));
}

TEST_F(DirectorTest, RecoveriesThatLeadNowhereAreAHang) {
  Director director = Make({});
  LookAt(director, 50);
  for (int generation = 2; generation < 10; ++generation) {
    status_.set_generation(generation);
    EXPECT_EQ(LookAt(director, 40, 5).failure, "");
    EXPECT_EQ(LookAt(director, 45, 5).failure, "");
  }
  status_.set_generation(10);
  LookAt(director, 40, 5);
  EXPECT_EQ(LookAt(director, 45, 5).failure,
            "no version beyond 50 for 1m30s, by now in generation 10; it is "
            "running");
}

}  // namespace
}  // namespace sluice

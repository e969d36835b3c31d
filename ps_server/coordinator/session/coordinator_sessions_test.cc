// What becomes of frames when connections come and go, without a network.
#include "ps_server/coordinator/session/coordinator_sessions.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/grant.h"
#include "common/key_proto.h"
#include "common/telemetry/counter_table.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/testing/jobs.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

const absl::Time kStart = absl::UnixEpoch();

class FakeConnection final : public FrameSink {
 public:
  void Queue(proto::FromCoordinator frame) override {
    frames.push_back(std::move(frame));
  }
  void End(const absl::Status& status) override {
    ended = true;
    end = status;
  }
  void Flush() override {}
  bool idle() const override { return true; }
  bool ending() const override { return ended; }
  bool local() const override { return is_local; }
  std::string holder() const override { return held_by; }

  std::vector<proto::FromCoordinator> frames;
  bool ended = false;
  absl::Status end;
  bool is_local = false;
  std::string held_by;
};

// Of the one session of a process.
std::string SecretOf(const std::string& process) {
  return absl::StrCat("the secret of process ", process);
}

class CoordinatorSessionsTest : public testing::Test {
 protected:
  std::shared_ptr<FakeConnection> Connect() {
    return std::make_shared<FakeConnection>();
  }
  absl::Status Join(const std::shared_ptr<FakeConnection>& connection,
                    proto::Role role, int64_t id, const std::string& process) {
    proto::ToCoordinator frame;
    frame.mutable_join()->set_role(role);
    frame.mutable_join()->set_id(id);
    frame.mutable_join()->set_address("host:1");
    frame.mutable_join()->set_process(process);
    frame.mutable_join()->set_session_secret(SecretOf(process));
    const absl::Status status = sessions_.OnFrame(connection, frame, kStart);
    for (const Action& action : sessions_.TakeActions()) {
      sessions_.Send(action, kStart);
    }
    return status;
  }

  // As a worker for which any number will do.
  absl::Status JoinAny(const std::shared_ptr<FakeConnection>& connection,
                       const std::string& process, int64_t incarnation = 0) {
    proto::ToCoordinator frame;
    frame.mutable_join()->set_role(proto::WORKER);
    frame.mutable_join()->set_any_number(true);
    frame.mutable_join()->set_incarnation(incarnation);
    frame.mutable_join()->set_process(process);
    frame.mutable_join()->set_session_secret(SecretOf(process));
    return sessions_.OnFrame(connection, frame, kStart);
  }

  // Ticks as often as the owner would: a gap would extend the leases.
  void TickUntil(absl::Time end) {
    for (; now_ < end; now_ += absl::Milliseconds(100)) {
      sessions_.Tick(now_);
      for (const Action& action : sessions_.TakeActions()) {
        sessions_.Send(action, now_);
      }
    }
  }

  absl::Time now_ = kStart;
  CoordinatorSessions sessions_{SmallJob(proto::ASYNC, 1, 1), kStart};
};

// A later one's is not this coordinator's to end: it asks again.
TEST(CoordinatorSessionsGenerationTest, AnEarlierGenerationsLifeIsOver) {
  CoordinatorOptions options = SmallJob(proto::ASYNC, 1, 1);
  options.generation = Generation(2);
  CoordinatorSessions sessions(options, kStart);
  const auto join = [&](int64_t incarnation, int64_t generation) {
    proto::ToCoordinator frame;
    frame.mutable_join()->set_role(proto::WORKER);
    frame.mutable_join()->set_incarnation(incarnation);
    frame.mutable_join()->set_generation(generation);
    frame.mutable_join()->set_session_secret(SecretOf("host 2"));
    return sessions.OnFrame(std::make_shared<FakeConnection>(), frame, kStart);
  };
  ASSERT_EQ(join(0, 0), absl::OkStatus());
  EXPECT_EQ(join(1, 2), absl::OkStatus());
  EXPECT_EQ(join(1, 1).ToString(),
            "ABORTED: worker 0: incarnation 1 is of generation 1, this is "
            "generation 2");
  EXPECT_EQ(join(1, 0).ToString(), join(1, 1).ToString());
  EXPECT_EQ(join(1, 3).ToString(),
            "UNAVAILABLE: worker 0: incarnation 1 is of generation 3, this is "
            "generation 2");
}

TEST_F(CoordinatorSessionsTest, TheWelcomeSaysWhichNumberAWorkerWasGiven) {
  const auto first = Connect(), second = Connect();
  EXPECT_EQ(JoinAny(first, "a"), absl::OkStatus());
  EXPECT_EQ(JoinAny(second, "b"), absl::OkStatus());
  EXPECT_EQ(first->frames[0].welcome().id(), 0);
  EXPECT_EQ(second->frames[0].welcome().id(), 1);
}

TEST_F(CoordinatorSessionsTest, WhoseWelcomeGotLostIsGivenTheSameNumberAgain) {
  EXPECT_EQ(JoinAny(Connect(), "a"), absl::OkStatus());
  const auto lost = Connect(), again = Connect();
  EXPECT_EQ(JoinAny(lost, "b"), absl::OkStatus());
  sessions_.OnBroken(lost.get(), kStart);
  EXPECT_EQ(JoinAny(again, "b"), absl::OkStatus());
  EXPECT_EQ(again->frames[0].welcome().id(), 1);
  EXPECT_EQ(again->frames[0].welcome().incarnation(), 1);
}

TEST_F(CoordinatorSessionsTest, OnlyAWorkersNewLifeMayHaveAnyNumber) {
  EXPECT_EQ(JoinAny(Connect(), "a", /*incarnation=*/1).ToString(),
            "INVALID_ARGUMENT: worker 0: any_number is for the new life of a "
            "worker");
  proto::ToCoordinator frame;
  frame.mutable_join()->set_role(proto::SHARD);
  frame.mutable_join()->set_any_number(true);
  EXPECT_TRUE(
      absl::IsInvalidArgument(sessions_.OnFrame(Connect(), frame, kStart)));
}

// ---- Which vector instructions the run computes with. ----

class InstructionsTest : public CoordinatorSessionsTest {
 protected:
  InstructionsTest() { Begin(SmallJob(proto::SYNC, 2, 1)); }

  void Begin(const CoordinatorOptions& options) {
    run_ = std::make_unique<CoordinatorSessions>(options, kStart);
  }
  absl::Status JoinWith(const std::shared_ptr<FakeConnection>& connection,
                        int64_t worker, int set) {
    proto::ToCoordinator frame;
    frame.mutable_join()->set_role(proto::WORKER);
    frame.mutable_join()->set_id(worker);
    frame.mutable_join()->set_process(absl::StrCat("host:", worker));
    frame.mutable_join()->set_session_secret(SecretOf(absl::StrCat(worker)));
    frame.mutable_join()->set_instruction_set(
        static_cast<proto::InstructionSet>(set));
    return run_->OnFrame(connection, frame, kStart);
  }
  // Carries out what has been decided; how many records there were of it.
  int CarryOut() {
    int records = 0;
    for (const Action& action : run_->TakeActions()) {
      records += std::holds_alternative<RecordInstructionSet>(action) ? 1 : 0;
      run_->Send(action, kStart);
    }
    return records;
  }
  static proto::InstructionSet ToldOn(const FakeConnection& connection) {
    return connection.frames.back().welcome().instruction_set();
  }

  std::unique_ptr<CoordinatorSessions> run_;
};

TEST_F(InstructionsTest, AreToldWhenAllHaveJoinedAndTheyAreRecorded) {
  const auto first = Connect(), second = Connect(), late = Connect();
  ASSERT_EQ(JoinWith(first, 0, proto::AVX512), absl::OkStatus());
  EXPECT_EQ(CarryOut(), 0);
  EXPECT_EQ(ToldOn(*first), proto::INSTRUCTION_SET_UNSPECIFIED);
  ASSERT_EQ(JoinWith(second, 1, proto::AVX2), absl::OkStatus());
  EXPECT_EQ(ToldOn(*second), proto::INSTRUCTION_SET_UNSPECIFIED)
      << "it is not in the commit log";
  EXPECT_EQ(CarryOut(), 1);
  EXPECT_EQ(ToldOn(*first), proto::AVX2);
  EXPECT_EQ(ToldOn(*second), proto::AVX2);
  // Whoever comes later is told at once.
  ASSERT_EQ(JoinWith(late, 2, proto::AVX512), absl::OkStatus());
  EXPECT_EQ(ToldOn(*late), proto::AVX2);
  EXPECT_EQ(CarryOut(), 0);
}

TEST_F(InstructionsTest, OfAnEarlierGenerationHold) {
  CoordinatorOptions options = SmallJob(proto::SYNC, 2, 1);
  options.instruction_set = proto::AVX512;
  Begin(options);
  const auto wide = Connect();
  ASSERT_EQ(JoinWith(wide, 0, proto::AVX512), absl::OkStatus());
  EXPECT_EQ(ToldOn(*wide), proto::AVX512);
  EXPECT_EQ(CarryOut(), 0);
  const absl::Status narrow = JoinWith(Connect(), 1, proto::AVX2);
  EXPECT_EQ(narrow.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(narrow.message()), HasSubstr("AVX512"));
}

TEST_F(InstructionsTest, MustBeSomeThatThereAre) {
  for (const int set : {-1, 3, 77}) {
    EXPECT_EQ(JoinWith(Connect(), 0, set).ToString(),
              absl::StrCat("INVALID_ARGUMENT: worker 0: instruction_set is ",
                           set, ", expected AVX2 or AVX512"));
  }
}

// A generation that is over, in two ways.
class OverTest : public CoordinatorSessionsTest {
 protected:
  OverTest() {
    EXPECT_TRUE(Join(shard0_, proto::SHARD, 0, "a").ok());
    EXPECT_TRUE(Join(shard1_, proto::SHARD, 1, "b").ok());
    EXPECT_TRUE(Join(worker_, proto::WORKER, 0, "c").ok());
  }
  void ExpectAllEndedWith(const std::string& status) {
    for (const auto& connection : {shard0_, shard1_, worker_}) {
      EXPECT_EQ(connection->end.ToString(), status);
    }
    EXPECT_TRUE(sessions_.EverybodyTold());
    // Whoever comes now is too early for the next one.
    const absl::Status early = Join(Connect(), proto::WORKER, 0, "d");
    EXPECT_EQ(early.ToString(),
              "UNAVAILABLE: worker 0: generation 1 is over, the next one "
              "follows");
  }

  const std::shared_ptr<FakeConnection> shard0_ = Connect();
  const std::shared_ptr<FakeConnection> shard1_ = Connect();
  const std::shared_ptr<FakeConnection> worker_ = Connect();
};

TEST_F(OverTest, EverybodyIsToldThatTheNextGenerationFollows) {
  sessions_.Send(EndGeneration{"shard 1 restarted", Version(7), 2}, kStart);
  ExpectAllEndedWith("ABORTED: generation 1 is over: shard 1 restarted");
  const auto* end = std::get_if<EndGeneration>(&*sessions_.end());
  ASSERT_NE(end, nullptr);
  EXPECT_EQ(end->furthest, Version(7));
  EXPECT_EQ(end->fruitless, 2);
}

TEST_F(OverTest, EverybodyIsToldThatAnotherProcessLeads) {
  sessions_.Supersede();
  ExpectAllEndedWith(
      "ABORTED: generation 1 is over: another process has taken the next one");
  EXPECT_TRUE(std::holds_alternative<Superseded>(*sessions_.end()));
  // What the run comes to here is of no more interest.
  sessions_.Finish({"", "1 epochs done"});
  EXPECT_TRUE(std::holds_alternative<Superseded>(*sessions_.end()));
}

// Also who was told once and has been started again.
TEST_F(OverTest, WhoComesAfterTheEndIsToldHowTheRunEnded) {
  sessions_.Finish({"", "1 epochs done"});
  proto::ToCoordinator heard;
  heard.mutable_heartbeat();
  for (const auto& connection : {shard0_, shard1_, worker_}) {
    heard.set_ack(connection->frames.back().sequence());
    EXPECT_EQ(sessions_.OnFrame(connection, heard, kStart), absl::OkStatus());
  }
  EXPECT_TRUE(sessions_.EverybodyTold());
  for (const int64_t worker : {0, 7}) {
    const auto late = Connect();
    EXPECT_EQ(Join(late, proto::WORKER, worker, "d"), absl::OkStatus());
    ASSERT_EQ(late->frames.size(), 2);
    EXPECT_TRUE(late->frames[0].has_welcome());
    EXPECT_EQ(late->frames[1].finish().reason(), "1 epochs done");
    EXPECT_FALSE(sessions_.EverybodyTold());
    heard.set_ack(0);
    EXPECT_EQ(sessions_.OnFrame(late, heard, kStart), absl::OkStatus());
    EXPECT_FALSE(late->ended);
    heard.set_ack(1);
    EXPECT_EQ(sessions_.OnFrame(late, heard, kStart), absl::OkStatus());
    EXPECT_TRUE(late->ended);
    EXPECT_EQ(late->end, absl::OkStatus());
    EXPECT_TRUE(sessions_.EverybodyTold());
  }
}

TEST_F(OverTest, WorkersWithoutANumberAreToldEachUnderItsOwn) {
  sessions_.Finish({"", "1 epochs done"});
  const auto first = Connect(), second = Connect();
  EXPECT_EQ(JoinAny(first, "d"), absl::OkStatus());
  EXPECT_EQ(JoinAny(second, "e"), absl::OkStatus());
  EXPECT_EQ(first->frames[0].welcome().id(), 1) << "0 is connected";
  EXPECT_EQ(second->frames[0].welcome().id(), 2);
  for (const auto& late : {first, second}) {
    EXPECT_EQ(late->frames[1].finish().reason(), "1 epochs done");
  }
  EXPECT_FALSE(worker_->ended);
}

TEST_F(OverTest, AResumedSessionIsToldOnce) {
  sessions_.Finish({"", "1 epochs done"});
  sessions_.OnBroken(worker_.get(), kStart);
  const auto again = Connect();
  proto::ToCoordinator frame;
  frame.mutable_join()->set_role(proto::WORKER);
  frame.mutable_join()->set_incarnation(1);
  frame.mutable_join()->set_generation(1);
  frame.mutable_join()->set_session_secret(SecretOf("c"));
  EXPECT_EQ(sessions_.OnFrame(again, frame, kStart), absl::OkStatus());
  EXPECT_EQ(std::count_if(again->frames.begin(), again->frames.end(),
                          [](const auto& frame) { return frame.has_finish(); }),
            1);
  frame.mutable_join()->set_incarnation(9);
  EXPECT_EQ(sessions_.OnFrame(Connect(), frame, kStart).ToString(),
            "ABORTED: worker 0: incarnation 9 is over");
}

TEST_F(CoordinatorSessionsTest, AShardInThisProcessNeedsNoHeartbeats) {
  const auto shard0 = Connect(), shard1 = Connect();
  shard0->is_local = shard1->is_local = true;
  ASSERT_TRUE(Join(shard0, proto::SHARD, 0, "host 1").ok());
  ASSERT_TRUE(Join(shard1, proto::SHARD, 1, "host 1").ok());
  ASSERT_TRUE(Join(Connect(), proto::WORKER, 0, "host 2").ok());
  TickUntil(kStart + absl::Seconds(60));
  EXPECT_FALSE(sessions_.finish().has_value());

  shard0->End(absl::CancelledError("test"));
  TickUntil(kStart + absl::Seconds(120));
  ASSERT_TRUE(sessions_.finish().has_value());
  EXPECT_THAT(sessions_.finish()->failure, testing::HasSubstr("shard 0"));
}

TEST_F(CoordinatorSessionsTest, AHeartbeatSaysWhichShardItsSenderCannotReach) {
  EXPECT_TRUE(Join(Connect(), proto::SHARD, 0, "a").ok());
  EXPECT_TRUE(Join(Connect(), proto::SHARD, 1, "b").ok());
  const auto worker = Connect();
  EXPECT_TRUE(Join(worker, proto::WORKER, 0, "c").ok());
  proto::ToCoordinator frame;
  frame.mutable_heartbeat()->set_waits_for("shard 1 at host:1");
  EXPECT_TRUE(sessions_.OnFrame(worker, frame, kStart).ok());
  EXPECT_THAT(
      sessions_.State(kStart).waiting_for,
      testing::HasSubstr("worker 0, which cannot reach shard 1 at host:1"));
}

TEST_F(CoordinatorSessionsTest, AHeartbeatsCountersStandInTheStateAsTheyCame) {
  const auto shard = Connect(), worker = Connect();
  EXPECT_TRUE(Join(shard, proto::SHARD, 0, "a").ok());
  EXPECT_TRUE(Join(Connect(), proto::SHARD, 1, "b").ok());
  EXPECT_TRUE(Join(worker, proto::WORKER, 0, "c").ok());
  proto::ToCoordinator frame;
  (*frame.mutable_heartbeat()->mutable_counters())["of.a_newer_build"] = 7;
  EXPECT_TRUE(sessions_.OnFrame(worker, frame, kStart).ok());
  EXPECT_TRUE(sessions_.OnFrame(shard, frame, kStart).ok());
  const CounterMap expected = {{"of.a_newer_build", 7}};
  EXPECT_EQ(sessions_.State(kStart).workers[0].counters, expected);
  EXPECT_EQ(sessions_.State(kStart).shards[0].counters, expected);
  EXPECT_EQ(sessions_.State(kStart).shards[1].counters, CounterMap());

  // Another life counts anew.
  sessions_.OnBroken(worker.get(), kStart);
  EXPECT_TRUE(Join(Connect(), proto::WORKER, 0, "d").ok());
  EXPECT_EQ(sessions_.State(kStart).workers[0].counters, CounterMap());
}

TEST_F(CoordinatorSessionsTest, AHeartbeatsCountersAreBounded) {
  const auto shard = Connect();
  EXPECT_TRUE(Join(shard, proto::SHARD, 0, "a").ok());
  proto::ToCoordinator frame;
  auto& counters = *frame.mutable_heartbeat()->mutable_counters();
  for (int i = 0; i < 1000; ++i) {
    counters[absl::StrCat("counter_", absl::Dec(i, absl::kZeroPad3))] = i;
  }
  counters[std::string(64, 'b')] = 1;
  counters[std::string(65, 'a')] = 1;
  counters["a line\nbreak"] = 1;
  counters["\x1b[2J"] = 1;
  counters[""] = 1;
  EXPECT_TRUE(sessions_.OnFrame(shard, frame, kStart).ok());
  const CounterMap kept = sessions_.State(kStart).shards[0].counters;
  ASSERT_EQ(kept.size(), 65);
  EXPECT_EQ(kept.at("counters_left_out"), 1005 - 64);
  EXPECT_EQ(kept.begin()->first, std::string(64, 'b'));
  for (int i = 0; i < 63; ++i) {
    EXPECT_EQ(kept.at(absl::StrCat("counter_", absl::Dec(i, absl::kZeroPad3))),
              i);
  }
}

TEST_F(CoordinatorSessionsTest, AShardWhoseWelcomeWasLostJoinsAgain) {
  const auto first = Connect();
  ASSERT_TRUE(Join(first, proto::SHARD, 0, "host 1").ok());
  ASSERT_TRUE(Join(Connect(), proto::SHARD, 1, "host 2").ok());
  ASSERT_TRUE(Join(Connect(), proto::WORKER, 0, "host 3").ok());
  sessions_.OnBroken(first.get(), kStart);

  const auto second = Connect();
  ASSERT_TRUE(Join(second, proto::SHARD, 0, "host 1").ok());

  EXPECT_FALSE(sessions_.finish().has_value());
  ASSERT_GE(second->frames.size(), 2);
  EXPECT_TRUE(second->frames[0].has_welcome());
  EXPECT_TRUE(second->frames[1].decision().has_restore())
      << "all that it has not acknowledged comes again";
  EXPECT_EQ(second->frames[1].sequence(), 1);
}

TEST_F(CoordinatorSessionsTest, ItsOldConnectionNeedNotHaveBeenSeenToBreak) {
  const auto first = Connect();
  ASSERT_TRUE(Join(first, proto::SHARD, 0, "host 1").ok());
  ASSERT_TRUE(Join(Connect(), proto::SHARD, 0, "host 1").ok());
  EXPECT_TRUE(first->ended);
}

TEST_F(CoordinatorSessionsTest, AnotherProcessCannotTakeALivingOnesPlace) {
  const auto first = Connect();
  ASSERT_TRUE(Join(first, proto::WORKER, 0, "host 1").ok());
  EXPECT_TRUE(absl::IsUnavailable(Join(Connect(), proto::WORKER, 0, "host 2")))
      << "it may have vanished";
  proto::ToCoordinator heartbeat;
  heartbeat.mutable_heartbeat();
  ASSERT_TRUE(
      sessions_.OnFrame(first, heartbeat, kStart + absl::Seconds(1)).ok());
  EXPECT_TRUE(
      absl::IsAlreadyExists(Join(Connect(), proto::WORKER, 0, "host 2")));
}

TEST_F(CoordinatorSessionsTest, AReportedDeathEndsTheLifeOfThatProcessOnly) {
  const auto first = Connect();
  ASSERT_TRUE(Join(first, proto::WORKER, 0, "host 1").ok());
  proto::DeathReport report;
  report.set_role(proto::WORKER);
  report.set_process("host 0");
  report.set_reason("exit status 1");
  EXPECT_EQ(sessions_.OnDeathReport(report, kStart), absl::OkStatus());
  EXPECT_EQ(sessions_.State(kStart).workers[0].life, PeerLife::kAlive);
  report.set_process("host 1");
  EXPECT_EQ(sessions_.OnDeathReport(report, kStart), absl::OkStatus());
  EXPECT_EQ(sessions_.State(kStart).workers[0].life, PeerLife::kDead);
  EXPECT_EQ(sessions_.OnDeathReport(report, kStart), absl::OkStatus());
  report.set_id(77);
  EXPECT_TRUE(absl::IsInvalidArgument(sessions_.OnDeathReport(report, kStart)));
  EXPECT_TRUE(Join(Connect(), proto::WORKER, 0, "host 2").ok());
}

TEST_F(CoordinatorSessionsTest, AnotherProcessInAShardsPlaceIsARestart) {
  const auto first = Connect();
  ASSERT_TRUE(Join(first, proto::SHARD, 0, "host 1").ok());
  ASSERT_TRUE(Join(Connect(), proto::SHARD, 1, "host 2").ok());
  ASSERT_TRUE(Join(Connect(), proto::WORKER, 0, "host 3").ok());
  sessions_.OnBroken(first.get(), kStart);
  EXPECT_TRUE(Join(Connect(), proto::SHARD, 0, "host 4").ok());
  ASSERT_TRUE(sessions_.finish().has_value());
  EXPECT_EQ(sessions_.finish()->failure, "shard 0 restarted");
}

TEST_F(CoordinatorSessionsTest, AShardThatHasSpokenAndJoinsAnewHasRestarted) {
  const auto first = Connect();
  ASSERT_TRUE(Join(first, proto::SHARD, 0, "host 1").ok());
  ASSERT_TRUE(Join(Connect(), proto::SHARD, 1, "host 2").ok());
  ASSERT_TRUE(Join(Connect(), proto::WORKER, 0, "host 3").ok());
  proto::ToCoordinator executed;
  executed.set_sequence(1);
  executed.set_ack(1);
  executed.mutable_executed()->set_decision(1);
  ASSERT_TRUE(sessions_.OnFrame(first, executed, kStart).ok());
  sessions_.OnBroken(first.get(), kStart);

  EXPECT_TRUE(Join(Connect(), proto::SHARD, 0, "host 1, again").ok());

  ASSERT_TRUE(sessions_.finish().has_value());
  EXPECT_EQ(sessions_.finish()->failure, "shard 0 restarted");
}

TEST_F(CoordinatorSessionsTest, OnlyWhoKnowsItsSecretResumesASession) {
  const auto worker = Connect();
  ASSERT_TRUE(Join(worker, proto::WORKER, 0, "host 1").ok());
  proto::ToCoordinator frame;
  frame.mutable_join()->set_role(proto::WORKER);
  frame.mutable_join()->set_incarnation(1);
  frame.mutable_join()->set_session_secret(SecretOf("host 2"));
  EXPECT_EQ(sessions_.OnFrame(Connect(), frame, kStart).ToString(),
            "PERMISSION_DENIED: worker 0: session_secret is not that of the "
            "session");
  EXPECT_FALSE(worker->ended);
  frame.mutable_join()->set_session_secret(SecretOf("host 1"));
  EXPECT_EQ(sessions_.OnFrame(Connect(), frame, kStart), absl::OkStatus());
  EXPECT_TRUE(worker->ended);
}

TEST_F(CoordinatorSessionsTest, AJoinThatCannotBeTakenBeginsNoLife) {
  proto::ToCoordinator frame;
  frame.mutable_join()->set_role(proto::WORKER);
  frame.mutable_join()->set_session_secret(SecretOf("host 1"));
  frame.set_ack(5);
  EXPECT_EQ(sessions_.OnFrame(Connect(), frame, kStart).ToString(),
            "INVALID_ARGUMENT: worker 0: message 5 is acknowledged, the last "
            "one sent is 0");
  EXPECT_EQ(sessions_.State(kStart).workers[0].life, PeerLife::kMissing);
  // Nor one that resumes a life, which goes on.
  const auto worker = Connect();
  ASSERT_TRUE(Join(worker, proto::WORKER, 0, "host 1").ok());
  frame.mutable_join()->set_incarnation(1);
  EXPECT_TRUE(
      absl::IsInvalidArgument(sessions_.OnFrame(Connect(), frame, kStart)));
  EXPECT_FALSE(worker->ended);
}

TEST_F(CoordinatorSessionsTest, ASessionsSecretIsOf16To64Bytes) {
  const auto join = [&](const std::string& secret) {
    proto::ToCoordinator frame;
    frame.mutable_join()->set_role(proto::WORKER);
    frame.mutable_join()->set_session_secret(secret);
    return sessions_.OnFrame(Connect(), frame, kStart);
  };
  EXPECT_EQ(join("").ToString(),
            "INVALID_ARGUMENT: worker 0: session_secret has 0 bytes, expected "
            "16 to 64");
  EXPECT_TRUE(absl::IsInvalidArgument(join(std::string(15, 's'))));
  EXPECT_TRUE(absl::IsInvalidArgument(join(std::string(65, 's'))));
  EXPECT_TRUE(join(std::string(64, 's')).ok());
}

TEST_F(CoordinatorSessionsTest, AGrantIsForTheCertificateOfTheSession) {
  const std::vector<std::shared_ptr<FakeConnection>> shards = {Connect(),
                                                               Connect()};
  const auto worker = Connect();
  worker->held_by = "the key of its certificate";
  EXPECT_TRUE(Join(shards[0], proto::SHARD, 0, "a").ok());
  EXPECT_TRUE(Join(shards[1], proto::SHARD, 1, "b").ok());
  EXPECT_TRUE(Join(worker, proto::WORKER, 0, "c").ok());
  proto::ToCoordinator executed;
  executed.set_sequence(1);
  executed.set_ack(1);
  executed.mutable_executed()->set_decision(1);
  for (const auto& shard : shards) {
    EXPECT_TRUE(sessions_.OnFrame(shard, executed, kStart).ok());
  }
  TickUntil(kStart + absl::Seconds(1));
  const auto task =
      std::find_if(worker->frames.begin(), worker->frames.end(),
                   [](const auto& frame) { return frame.has_task(); });
  ASSERT_NE(task, worker->frames.end());
  const GradientKey key = KeyFromProto(task->task().key());
  EXPECT_EQ(task->task().grant(), GrantKey("").GrantFor(key, worker->held_by));
}

}  // namespace
}  // namespace sluice

#include "common/session/client_session.h"

#include "common/process/exit_codes.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;
using Event = ClientSession::Event;

const absl::Time kStart = absl::UnixEpoch();

ClientSession::Options WorkerOptions() {
  ClientSession::Options options;
  options.address = "lead:7000";
  options.join.set_role(proto::WORKER);
  options.start_timeout = absl::Seconds(300);
  options.rejoin_timeout = absl::Seconds(5);
  return options;
}

proto::FromCoordinator Welcome(int64_t incarnation) {
  proto::FromCoordinator frame;
  frame.mutable_welcome()->set_generation(7);
  frame.mutable_welcome()->set_incarnation(incarnation);
  frame.mutable_welcome()->add_shard_addresses("shard:7000");
  frame.mutable_welcome()->set_heartbeat_every_s(1);
  return frame;
}

proto::FromCoordinator TaskFrame(uint64_t sequence) {
  proto::FromCoordinator frame;
  frame.set_sequence(sequence);
  frame.mutable_task();
  return frame;
}

proto::ToCoordinator Ready() {
  proto::ToCoordinator message;
  message.mutable_ready();
  return message;
}

ClientSession Joined() {
  ClientSession session(WorkerOptions(), kStart);
  EXPECT_EQ(*session.OnFrame(Welcome(1), kStart), Event::kWelcome);
  return session;
}

TEST(ClientSessionTest, AWorkerIsWelcomedOnlyWithTheShardsAddresses) {
  ClientSession session(WorkerOptions(), kStart);
  proto::FromCoordinator incomplete = Welcome(1);
  incomplete.mutable_welcome()->clear_shard_addresses();
  ASSERT_TRUE(session.OnFrame(incomplete, kStart).ok());
  EXPECT_FALSE(session.welcomed());
  ASSERT_TRUE(session.OnFrame(Welcome(1), kStart).ok());
  EXPECT_TRUE(session.welcomed());
}

TEST(ClientSessionTest, WhoNamesItsInstructionsIsWelcomedOnlyWithTheRuns) {
  ClientSession::Options options = WorkerOptions();
  options.join.set_instruction_set(proto::AVX512);
  ClientSession session(options, kStart);
  proto::FromCoordinator welcome = Welcome(1);
  ASSERT_TRUE(session.OnFrame(welcome, kStart).ok());
  EXPECT_FALSE(session.welcomed());
  welcome.mutable_welcome()->set_instruction_set(proto::AVX2);
  ASSERT_TRUE(session.OnFrame(welcome, kStart).ok());
  EXPECT_TRUE(session.welcomed());
}

// Protobuf would not parse it, and the coordinator see a connection that
// breaks.
TEST(ClientSessionTest, AReasonThatIsNoUtf8ArrivesAllTheSame) {
  ClientSession session = Joined();
  session.CannotReach("waits for caf\xe9", kStart);
  proto::ToCoordinator evaluated, rejected, stored, executed;
  evaluated.mutable_evaluated()->set_error("evaluated caf\xe9");
  rejected.mutable_rejected()->set_reason("rejected caf\xe9");
  stored.mutable_stored()->set_error("stored caf\xe9");
  ASSERT_TRUE(session.Send(evaluated).ok());
  ASSERT_TRUE(session.Send(rejected).ok());
  executed.mutable_executed()->set_fault("executed caf\xe9");
  ASSERT_TRUE(session.Send(stored).ok());
  ASSERT_TRUE(session.Send(executed).ok());
  session.Leave("left caf\xe9", /*for_good=*/true);
  const auto next = [&] {
    proto::ToCoordinator arrived;
    EXPECT_TRUE(arrived.ParseFromString(
        session.NextFrame(kStart)->SerializeAsString()));
    return arrived;
  };
  EXPECT_EQ(next().evaluated().error(), "evaluated caf\xef\xbf\xbd");
  EXPECT_EQ(next().rejected().reason(), "rejected caf\xef\xbf\xbd");
  EXPECT_EQ(next().stored().error(), "stored caf\xef\xbf\xbd");
  EXPECT_EQ(next().executed().fault(), "executed caf\xef\xbf\xbd");
  EXPECT_EQ(next().leave().reason(), "left caf\xef\xbf\xbd");
  EXPECT_EQ(next().heartbeat().waits_for(), "waits for caf\xef\xbf\xbd");
}

TEST(ClientSessionTest, AReconnectResumesWithTheLastNumberReceived) {
  ClientSession session = Joined();
  ASSERT_EQ(*session.OnFrame(TaskFrame(1), kStart), Event::kMessage);
  ASSERT_TRUE(session.Send(Ready()).ok());
  EXPECT_TRUE(session.NextFrame(kStart)->has_ready());

  EXPECT_FALSE(
      session.OnConnectionEnd(absl::UnavailableError("broken"), kStart));
  const proto::ToCoordinator join = session.Join();
  EXPECT_EQ(join.join().incarnation(), 1);
  EXPECT_EQ(join.join().generation(), 7);
  EXPECT_EQ(join.ack(), 1);
  EXPECT_EQ(*session.OnFrame(Welcome(1), kStart), Event::kWelcome);
  EXPECT_EQ(*session.OnFrame(TaskFrame(1), kStart), Event::kNothing);
  EXPECT_TRUE(session.NextFrame(kStart)->has_ready()) << "sent again";
}

TEST(ClientSessionTest, WhoIsAbortedBeforeAllAreThereJoinsAnewFromOne) {
  ClientSession session(WorkerOptions(), kStart);
  proto::FromCoordinator incomplete = Welcome(1);
  incomplete.mutable_welcome()->clear_shard_addresses();
  ASSERT_TRUE(session.OnFrame(incomplete, kStart).ok());
  ASSERT_EQ(*session.OnFrame(TaskFrame(1), kStart), Event::kMessage);
  EXPECT_FALSE(session.OnConnectionEnd(absl::AbortedError("over"), kStart));
  EXPECT_EQ(session.Join().join().incarnation(), 0);
  EXPECT_EQ(session.Join().join().generation(), 0);
  EXPECT_EQ(session.Join().ack(), 0);
  EXPECT_EQ(*session.OnFrame(Welcome(2), kStart), Event::kWelcome);
  EXPECT_FALSE(session.HasUrgentFrame());
  EXPECT_EQ(*session.OnFrame(TaskFrame(1), kStart), Event::kMessage);
}

TEST(ClientSessionTest, WhoTakesAnyNumberResumesUnderTheOneItWasGiven) {
  ClientSession::Options options = WorkerOptions();
  options.join.set_any_number(true);
  ClientSession session(options, kStart);
  EXPECT_TRUE(session.Join().join().any_number());
  EXPECT_EQ(session.Join().join().id(), 0);
  proto::FromCoordinator welcome = Welcome(1);
  welcome.mutable_welcome()->set_id(3);
  welcome.mutable_welcome()->clear_shard_addresses();
  ASSERT_TRUE(session.OnFrame(welcome, kStart).ok());
  EXPECT_FALSE(
      session.OnConnectionEnd(absl::UnavailableError("broken"), kStart));
  EXPECT_FALSE(session.Join().join().any_number());
  EXPECT_EQ(session.Join().join().id(), 3);
  // Another life would like to keep it.
  EXPECT_FALSE(session.OnConnectionEnd(absl::AbortedError("over"), kStart));
  EXPECT_TRUE(session.Join().join().any_number());
  EXPECT_EQ(session.Join().join().id(), 3);
}

TEST(ClientSessionTest, WhoHasANumberIsWelcomedUnderNoOther) {
  ClientSession session(WorkerOptions(), kStart);
  proto::FromCoordinator welcome = Welcome(1);
  welcome.mutable_welcome()->set_id(3);
  EXPECT_EQ(session.OnFrame(welcome, kStart).status().message(),
            "coordinator at lead:7000: welcomes number 3, number 0 joined");
}

TEST(ClientSessionTest, AnAbortedIncarnationEndsTheSession) {
  ClientSession session = Joined();
  const auto end = session.OnConnectionEnd(absl::AbortedError("dead"), kStart);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->message(), "coordinator at lead:7000: dead");
}

// Calls Awake as the writer thread does while the session is idle.
void StayAwake(ClientSession* session, absl::Time until) {
  for (absl::Time now = kStart; now <= until; now += absl::Seconds(1)) {
    session->Awake(now);
  }
}

TEST(ClientSessionTest, AnUnreachableCoordinatorIsGivenUpAndNamed) {
  ClientSession session = Joined();
  const absl::Status broken = absl::UnavailableError("connection refused");
  StayAwake(&session, kStart + absl::Seconds(4));
  EXPECT_FALSE(session.OnConnectionEnd(broken, kStart + absl::Seconds(4.9)));
  const auto end = session.OnConnectionEnd(broken, kStart + absl::Seconds(5));
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(AsksForRestart(*end));
  EXPECT_EQ(end->message(),
            "coordinator at lead:7000: no answer for 5.0 s "
            "(limits.rejoin_timeout_s); last error: connection refused");
}

TEST(ClientSessionTest, ACoordinatorThatNeverCameMayComeYet) {
  ClientSession session(WorkerOptions(), kStart);
  StayAwake(&session, session.Deadline());
  const auto end = session.OnConnectionEnd(
      absl::UnavailableError("connection refused"), session.Deadline());
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(AsksForRestart(*end));
  EXPECT_NE(end->message().find("(limits.start_timeout_s)"),
            absl::string_view::npos);
}

TEST(ClientSessionTest, WhoHasTakenPartBeforeWaitsNoLongerForItsFirstWelcome) {
  ClientSession::Options options = WorkerOptions();
  options.rejoins = true;
  ClientSession session(options, kStart);
  EXPECT_EQ(session.Deadline(), kStart + options.rejoin_timeout);
  StayAwake(&session, kStart + absl::Seconds(4));
  const auto end = session.OnConnectionEnd(
      absl::UnavailableError("connection refused"), kStart + absl::Seconds(5));
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(AsksForRestart(*end));
  EXPECT_EQ(end->message(),
            "coordinator at lead:7000: no answer for 5.0 s "
            "(limits.rejoin_timeout_s); last error: connection refused");
}

TEST(ClientSessionTest, ASilentConnectionIsCutAndAnotherIsTriedMuchLonger) {
  ClientSession::Options options = WorkerOptions();
  options.rejoin_timeout = absl::Seconds(600);
  ClientSession session(options, kStart);
  ASSERT_TRUE(session.OnFrame(Welcome(1), kStart).ok());
  const absl::Duration lease =
      5 * absl::Seconds(session.welcome().heartbeat_every_s());
  EXPECT_EQ(session.CutAt(), kStart + lease);
  StayAwake(&session, kStart + lease);
  const absl::Status cut = absl::CancelledError("cut");
  EXPECT_FALSE(session.OnConnectionEnd(cut, kStart + lease).has_value());
  // The next connection has as long.
  EXPECT_EQ(session.CutAt(), kStart + 2 * lease);
  EXPECT_EQ(session.Deadline(), kStart + absl::Seconds(600));
  EXPECT_EQ(session.Join().join().incarnation(), 1) << "it may resume";
}

TEST(ClientSessionTest, WhoIsToldToEndWaitsForASilentCoordinatorForALease) {
  for (const bool rejoins : {false, true}) {
    ClientSession::Options options = WorkerOptions();
    options.rejoin_timeout = absl::Seconds(600);
    options.rejoins = rejoins;
    ClientSession session(options, kStart);
    session.Hurry();
    EXPECT_EQ(session.Deadline(), kStart + absl::Seconds(5));
    const auto end = session.OnConnectionEnd(absl::UnavailableError("refused"),
                                             session.Deadline());
    ASSERT_TRUE(end.has_value());
    EXPECT_THAT(std::string(end->message()),
                HasSubstr("no answer for 5.0 s (told to end)"));
    const absl::Time later = kStart + absl::Seconds(1);
    ASSERT_TRUE(session.OnFrame(Welcome(1), later).ok());
    EXPECT_EQ(session.Deadline(), later + absl::Seconds(5));
  }
}

TEST(ClientSessionTest, TheErrorNamedIsTheCoordinatorsNotOurOwnCut) {
  ClientSession session = Joined();
  StayAwake(&session, kStart + absl::Seconds(4));
  EXPECT_FALSE(session.OnConnectionEnd(absl::UnavailableError("reset"),
                                       kStart + absl::Seconds(4)));
  const auto end = session.OnConnectionEnd(absl::CancelledError("cut"),
                                           kStart + absl::Seconds(5));
  ASSERT_TRUE(end.has_value());
  EXPECT_NE(end->message().find("last error: reset"), absl::string_view::npos)
      << *end;
}

TEST(ClientSessionTest, AProcessThatWasStoppedDoesNotBlameTheCoordinator) {
  ClientSession session = Joined();
  StayAwake(&session, kStart + absl::Seconds(2));
  // Stopped for a minute.
  const absl::Time later = kStart + absl::Seconds(62);
  session.Awake(later);
  EXPECT_GT(session.Deadline(), later);
  EXPECT_FALSE(session.OnConnectionEnd(absl::UnavailableError("reset"), later));
  EXPECT_EQ(session.Join().join().incarnation(), 1)
      << "is resumed, if it lives";
}

TEST(ClientSessionTest, AtTheStartItWaitsForTheStartTimeout) {
  ClientSession session(WorkerOptions(), kStart);
  const absl::Status broken = absl::UnavailableError("connection refused");
  EXPECT_FALSE(session.OnConnectionEnd(broken, kStart + absl::Seconds(299)));
  EXPECT_TRUE(session.OnConnectionEnd(broken, kStart + absl::Seconds(300)));
}

TEST(ClientSessionTest, ARefusalIsFinal) {
  ClientSession session(WorkerOptions(), kStart);
  const auto end = session.OnConnectionEnd(
      absl::FailedPreconditionError("sync.k: 3 here, 4 there"), kStart);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->code(), absl::StatusCode::kFailedPrecondition);
}

TEST(ClientSessionTest, ABrokenStreamAfterFinishIsNoError) {
  ClientSession session = Joined();
  proto::FromCoordinator frame;
  frame.set_sequence(1);
  frame.mutable_finish()->set_reason("5 epochs");
  ASSERT_EQ(*session.OnFrame(frame, kStart), Event::kMessage);
  session.OnFinished(frame.finish());
  EXPECT_EQ(session.NextFrame(kStart)->ack(), 1) << "acknowledged at once";
  const auto end =
      session.OnConnectionEnd(absl::UnavailableError("gone"), kStart);
  ASSERT_TRUE(end.has_value());
  EXPECT_TRUE(end->ok()) << *end;
}

TEST(ClientSessionTest, AGapEndsTheSession) {
  ClientSession session = Joined();
  EXPECT_FALSE(session.OnFrame(TaskFrame(2), kStart).ok());
  const auto end = session.OnConnectionEnd(absl::CancelledError("cut"), kStart);
  ASSERT_TRUE(end.has_value());
  EXPECT_EQ(end->message(),
            "coordinator at lead:7000: message 1 is expected, 2 came");
}

TEST(ClientSessionTest, AWelcomeOfAnotherIncarnationIsRefused) {
  ClientSession session = Joined();
  EXPECT_FALSE(session.OnConnectionEnd(absl::OkStatus(), kStart));
  EXPECT_FALSE(session.OnFrame(Welcome(2), kStart).ok());
}

TEST(ClientSessionTest, HeartbeatsAreSentHoweverMuchElseIs) {
  ClientSession session = Joined();
  EXPECT_TRUE(session.NextFrame(kStart)->has_heartbeat());
  EXPECT_FALSE(session.NextFrame(kStart + absl::Seconds(0.9)));
  ASSERT_TRUE(session.Send(Ready()).ok());
  EXPECT_TRUE(session.NextFrame(kStart + absl::Seconds(0.9))->has_ready());
  EXPECT_FALSE(session.NextFrame(kStart + absl::Seconds(0.9)));
  EXPECT_TRUE(session.NextFrame(kStart + absl::Seconds(1))->has_heartbeat());
  EXPECT_FALSE(session.NextFrame(kStart + absl::Seconds(1.9)));
}

TEST(ClientSessionTest, WhomItCannotReachIsSaidAtOnceAndWithEachHeartbeat) {
  ClientSession session = Joined();
  EXPECT_EQ(session.NextFrame(kStart)->heartbeat().waits_for(), "");
  absl::Time now = kStart + absl::Seconds(0.1);
  session.CannotReach("shard 1", kStart);
  EXPECT_TRUE(session.HasUrgentFrame());
  ASSERT_TRUE(session.Send(Ready()).ok());
  EXPECT_TRUE(session.NextFrame(now)->has_ready());
  const auto first = session.NextFrame(now);
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->heartbeat().waits_for(), "shard 1");
  EXPECT_DOUBLE_EQ(first->heartbeat().waits_s(), 0.1);
  session.CannotReach("shard 1", kStart);
  EXPECT_FALSE(session.NextFrame(now)) << "nothing new";
  now += absl::Seconds(1);
  EXPECT_EQ(session.NextFrame(now)->heartbeat().waits_for(), "shard 1");
  session.CannotReach("", absl::Time());
  EXPECT_TRUE(session.HasUrgentFrame());
  EXPECT_EQ(session.NextFrame(now)->heartbeat().waits_for(), "");
  EXPECT_FALSE(session.HasUrgentFrame());
}

TEST(ClientSessionTest, TheBackoffDoublesUpToOneSecond) {
  ClientSession session(WorkerOptions(), kStart);
  absl::Duration last = absl::ZeroDuration();
  for (int i = 0; i < 20; ++i) {
    EXPECT_FALSE(session.OnConnectionEnd(absl::UnavailableError(""), kStart));
    EXPECT_GE(session.Backoff(), last);
    last = session.Backoff();
  }
  EXPECT_EQ(last, absl::Seconds(1));
}

}  // namespace
}  // namespace sluice

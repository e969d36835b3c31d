// What comes to the coordinator's door: joins, broken connections, garbage.
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "ps_server/coordinator/session/coordinator_service.h"
#include "ps_server/coordinator/session/coordinator_service_testing.h"

namespace sluice {
namespace {

using ::sluice::testing::ExpectNumbered;
using ::sluice::testing::FakePeer;
using ::sluice::testing::JoinFrame;
using ::sluice::testing::kPatience;
using ::sluice::testing::Lead;
using ::sluice::testing::Peers;
using ::sluice::testing::RunOf;

// What the coordinator answers to these frames, sent in this order.
grpc::Status Say(const Lead& lead,
                 const std::vector<proto::ToCoordinator>& frames) {
  const auto stub = lead.Stub();
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(Clock::Real()->Now() + kPatience));
  const auto stream = stub->Session(&context);
  for (const auto& frame : frames) stream->Write(frame);
  proto::FromCoordinator answer;
  while (stream->Read(&answer)) {
  }
  return stream->Finish();
}

TEST(CoordinatorSessionTest, BrokenConnectionsAreResumedWithoutLossOrRepeat) {
  // The run lasts until this test has seen what it wants to see, and nobody is
  // given up meanwhile, however slow the machine is.
  CoordinatorService::Options options = RunOf(2, 3, 1000000);
  options.core.job.mutable_limits()->set_lease_s(
      absl::ToDoubleSeconds(kPatience));
  options.core.finish_timeout = kPatience;
  options.farewell_timeout = kPatience;
  Lead lead(options);
  Peers peers(lead, 2, 3);
  for (size_t seen : {100, 400, 700}) {
    for (auto& peer : peers.all) ASSERT_TRUE(peer->AwaitReceived(seen));
    lead.BreakConnections();
  }
  for (auto& peer : peers.all) ASSERT_TRUE(peer->AwaitReceived(1000));
  lead.service().RequestStop("test");
  const auto end = std::get<FinishRun>(lead.service().AwaitEnd());
  EXPECT_EQ(end.failure, "");
  const JobState state = lead.service().State();
  EXPECT_EQ(Version(state.counters.applied), state.version);
  for (auto& peer : peers.all) {
    EXPECT_TRUE(peer->client().Wait().ok());
    ExpectNumbered(peer->received());
  }
  for (const WorkerState& worker : state.workers) {
    EXPECT_EQ(worker.incarnation, Incarnation(1)) << "resumed, not new";
  }
}

TEST(CoordinatorSessionTest, AnotherJobIsRefusedAndTheFieldIsNamed) {
  Lead lead(RunOf(1, 1, 5));
  proto::ToCoordinator join = JoinFrame(proto::WORKER, 0);
  join.mutable_join()->set_fingerprint("def");
  join.mutable_join()->set_job("seed: 2\n");
  const grpc::Status status = Say(lead, {join});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(status.error_message(),
            "worker 0: another job than the coordinator's: seed: 2 here, 1 "
            "there");
}

TEST(CoordinatorSessionTest, AnIdOfALivingProcessIsRefused) {
  Lead lead(RunOf(1, 2, 5));
  FakePeer shard(lead, proto::SHARD, 0);
  FakePeer worker(lead, proto::WORKER, 0);
  ASSERT_TRUE(worker.AwaitConnected().ok());
  // The first time it is not known yet whether it lives.
  grpc::Status status;
  do {
    status = Say(lead, {JoinFrame(proto::WORKER, 0)});
  } while (status.error_code() == grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ALREADY_EXISTS);
  lead.service().RequestStop("test");
  lead.service().AwaitEnd();
}

TEST(CoordinatorSessionTest, MalformedMessagesAreRefusedAtTheDoor) {
  Lead lead(RunOf(1, 2, 5));
  FakePeer shard(lead, proto::SHARD, 0);
  ASSERT_TRUE(shard.AwaitConnected().ok());
  proto::ToCoordinator heartbeat;
  heartbeat.mutable_heartbeat();
  proto::ToCoordinator empty;
  empty.set_sequence(1);
  proto::ToCoordinator gap;
  gap.set_sequence(3);
  gap.mutable_ready();
  proto::ToCoordinator others;  // A gradient of worker 1.
  others.set_sequence(1);
  others.mutable_ready()->mutable_key()->set_worker(1);
  proto::ToCoordinator logs = others;
  logs.mutable_ready()->mutable_key()->set_worker(7);
  (*logs.mutable_ready()->mutable_logged())["a b"] = 1;
  proto::ToCoordinator executed;
  executed.set_sequence(1);
  executed.mutable_executed();
  proto::ToCoordinator acks = heartbeat;
  acks.set_ack(1000);

  proto::ToCoordinator rejected;  // Of a task that has ended.
  rejected.set_sequence(1);
  rejected.mutable_rejected()->mutable_key()->set_worker(6);

  const struct {
    std::vector<proto::ToCoordinator> frames;
    std::string message;
  } cases[] = {
      {{heartbeat}, "the first message must be a Join"},
      {{JoinFrame(proto::ROLE_UNSPECIFIED, 0)},
       "Join.role: must be WORKER, SHARD or EVALUATOR, is 0"},
      {{JoinFrame(proto::WORKER, -1)}, "Join.id: must be at least 0, is -1"},
      {{JoinFrame(proto::WORKER, 0), JoinFrame(proto::WORKER, 0)},
       "worker 0: a second Join"},
      {{JoinFrame(proto::WORKER, 1), empty},
       "worker 1: message 1 has no known body"},
      {{JoinFrame(proto::WORKER, 2), gap},
       "worker 2: message 1 is expected, 3 came"},
      {{JoinFrame(proto::WORKER, 3), others},
       "worker 3: Ready for g0/w1/i0/s0"},
      {{JoinFrame(proto::WORKER, 7), logs},
       "worker 7: a value logged as \"a b\", expected a name of 1 to 64 "
       "letters, digits and _ . / -"},
      {{JoinFrame(proto::WORKER, 4), executed}, "worker 4: Executed"},
      {{JoinFrame(proto::WORKER, 5), acks},
       "worker 5: message 1000 is acknowledged, the last one sent is 0"},
      // The second message 1 is a repetition, whatever is in it.
      {{JoinFrame(proto::WORKER, 6), rejected, empty, gap},
       "worker 6: message 2 is expected, 3 came"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.message);
    const grpc::Status status = Say(lead, c.frames);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(), c.message);
  }
  lead.service().RequestStop("test");
  EXPECT_EQ(std::get<FinishRun>(lead.service().AwaitEnd()).failure, "");
}

}  // namespace
}  // namespace sluice

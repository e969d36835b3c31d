#include "ps_server/coordinator/session/finished_run.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/session/coordinator_client.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/session/served_endpoint.h"

namespace sluice {
namespace {

// Far longer than an answer takes.
constexpr absl::Duration kPatience = absl::Seconds(10);

class FinishedRunTest : public ::testing::Test {
 protected:
  FinishedRunTest() {
    context_.set_deadline(absl::ToChronoTime(Clock::Real()->Now() + kPatience));
  }

  static proto::Join WorkerOf(const std::string& fingerprint) {
    proto::Join join;
    join.set_role(proto::WORKER);
    join.set_id(2);
    join.set_fingerprint(fingerprint);
    join.set_session_secret("the secret of a test");
    return join;
  }

  FinishedRun finished_{JobAgreement("abc", "seed: 1\n"), "2 epochs"};
  ServedEndpoint served_{&finished_};
  grpc::ClientContext context_;
  std::unique_ptr<proto::Coordinator::Stub> stub_ = served_.Connect();
};

TEST_F(FinishedRunTest, WhoJoinsIsToldToFinish) {
  std::string reason;
  CoordinatorClient::Options options;
  options.address = served_.address();
  options.join = WorkerOf("abc");
  options.start_timeout = kPatience;
  options.on_message = [&](const proto::FromCoordinator& frame) {
    ASSERT_TRUE(frame.has_finish());
    EXPECT_EQ(frame.finish().failure(), "");
    reason = frame.finish().reason();
  };
  const auto client = CoordinatorClient::Connect(options);
  ASSERT_TRUE(client.ok()) << client.status();
  EXPECT_TRUE((*client)->Wait().ok());
  EXPECT_EQ(reason, "2 epochs");
}

// The Finish is the next message of the session that the dead coordinator
// began: any other number would be taken for a repeated one, or for a gap.
TEST_F(FinishedRunTest, ASessionThatIsResumedEndsWithItsNextMessage) {
  proto::ToCoordinator join;
  *join.mutable_join() = WorkerOf("abc");
  join.mutable_join()->set_incarnation(3);
  join.mutable_join()->set_generation(2);
  join.set_ack(17);
  const auto session = stub_->Session(&context_);
  ASSERT_TRUE(session->Write(join));
  proto::FromCoordinator answer;
  ASSERT_TRUE(session->Read(&answer));
  EXPECT_EQ(answer.welcome().id(), 2);
  EXPECT_EQ(answer.welcome().incarnation(), 3);
  EXPECT_EQ(answer.welcome().generation(), 2);
  ASSERT_EQ(answer.behind_size(), 1);
  EXPECT_TRUE(answer.behind(0).has_finish());
  EXPECT_EQ(answer.behind(0).sequence(), 18u);
  EXPECT_FALSE(session->Read(&answer));
  EXPECT_TRUE(session->Finish().ok());
}

TEST_F(FinishedRunTest, AProcessOfAnotherJobIsRefused) {
  proto::ToCoordinator join;
  *join.mutable_join() = WorkerOf("another");
  const auto session = stub_->Session(&context_);
  ASSERT_TRUE(session->Write(join));
  proto::FromCoordinator answer;
  EXPECT_FALSE(session->Read(&answer));
  EXPECT_EQ(session->Finish().error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
}

TEST_F(FinishedRunTest, WhoAsksHowTheRunStandsHearsThatItIsOver) {
  proto::JobStatus status;
  const grpc::Status answer = stub_->GetStatus(&context_, {}, &status);
  EXPECT_EQ(answer.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(answer.error_message(), "2 epochs");
}

}  // namespace
}  // namespace sluice

#include "ps_server/coordinator/session/session_stream.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/clock.h"
#include "common/rpc/channel_options.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/session/coordinator_endpoint.h"

namespace sluice {
namespace {

// Far longer than an answer takes.
constexpr absl::Duration kPatience = absl::Seconds(10);
// Calls on another connection, after which this one has said all that a
// connection says by itself.
constexpr int kCallsBefore = 50;

// Leaves it to the test to answer.
class Keeper final : public CoordinatorEndpoint::Handler {
 public:
  void OnFrame(SessionStream* stream, const proto::ToCoordinator&) override {
    stream_ = stream->Share();
    here_.Notify();
  }
  void OnBroken(SessionStream*) override {}
  proto::JobStatus OnGetStatus() override { return {}; }
  void OnStop(const proto::StopRequest&) override {}
  absl::StatusOr<proto::CheckpointReply> OnRequestCheckpoint() override {
    return proto::CheckpointReply();
  }
  absl::Status OnReportDeath(const proto::DeathReport&) override {
    return absl::OkStatus();
  }

  std::shared_ptr<SessionStream> Await() {
    EXPECT_TRUE(here_.WaitForNotificationWithTimeout(kPatience));
    return stream_;
  }

 private:
  absl::Notification here_;
  std::shared_ptr<SessionStream> stream_;
};

class SessionStreamTest : public ::testing::Test {
 protected:
  SessionStreamTest() {
    grpc::ServerBuilder builder;
    int port = 0;
    ApplyServerOptions(&builder);
    endpoint_.Register(&builder);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr);
    endpoint_.Start();
    address_ = absl::StrCat("127.0.0.1:", port);
  }
  ~SessionStreamTest() override {
    server_->Shutdown(absl::ToChronoTime(absl::UnixEpoch()));
    endpoint_.Shutdown();
  }

  std::unique_ptr<proto::Coordinator::Stub> Connect() const {
    return proto::Coordinator::NewStub(
        grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(),
                                  SessionChannelArguments()));
  }

  Keeper handler_;
  CoordinatorEndpoint endpoint_{&handler_};
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

// A Welcome and what has waited for a resumed session, to a peer that has
// nothing to say meanwhile: gRPC would not write what it holds back.
TEST_F(SessionStreamTest, TheFirstFramesArriveOnAQuietConnection) {
  const auto stub = Connect(), other = Connect();
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(Clock::Real()->Now() + kPatience));
  const auto client = stub->Session(&context);
  client->Write({});
  const std::shared_ptr<SessionStream> stream = handler_.Await();
  for (int i = 0; i < kCallsBefore; ++i) {
    grpc::ClientContext call;
    proto::JobStatus status;
    ASSERT_TRUE(other->GetStatus(&call, {}, &status).ok());
  }

  for (uint64_t sequence : {1, 2}) {
    proto::FromCoordinator frame;
    frame.set_sequence(sequence);
    stream->Queue(std::move(frame));
  }
  stream->Flush();
  proto::FromCoordinator frame;
  for (uint64_t sequence : {1, 2}) {
    ASSERT_TRUE(client->Read(&frame)) << client->Finish().error_message();
    EXPECT_EQ(frame.sequence(), sequence);
  }
  context.TryCancel();
  client->Finish();
}

TEST_F(SessionStreamTest, AConnectionOnWhichNoJoinComesIsEnded) {
  const auto stub = Connect();
  grpc::ClientContext context;
  context.set_deadline(
      absl::ToChronoTime(Clock::Real()->Now() + 3 * kPatience));
  const auto client = stub->Session(&context);
  const grpc::Status ended = client->Finish();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(ended.error_message(), "no Join came for 10s");
}

}  // namespace
}  // namespace sluice

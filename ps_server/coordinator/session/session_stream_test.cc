#include "ps_server/coordinator/session/session_stream.h"

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "common/clock.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/session/coordinator_endpoint.h"
#include "ps_server/coordinator/session/served_endpoint.h"

namespace sluice {
namespace {

// Far longer than an answer takes.
constexpr absl::Duration kPatience = absl::Seconds(10);

// Leaves it to the test to answer.
class Keeper final : public CoordinatorEndpoint::Handler {
 public:
  void OnFrame(SessionStream* stream, const proto::ToCoordinator&) override {
    stream_ = stream->Share();
    here_.Notify();
  }
  void OnBroken(SessionStream*) override {}
  absl::Status CheckRun(const std::string&) override {
    return absl::OkStatus();
  }
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
  Keeper handler_;
  ServedEndpoint served_{&handler_};
};

// A Verdict and the next Task, say.
TEST_F(SessionStreamTest, FramesThatAreReadyTogetherAreOneMessage) {
  const auto stub = served_.Connect();
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(Clock::Real()->Now() + kPatience));
  const auto client = stub->Session(&context);
  client->Write({});
  const std::shared_ptr<SessionStream> stream = handler_.Await();
  const std::string large(64 << 10, 'x');
  for (uint64_t sequence = 1; sequence <= 6; ++sequence) {
    proto::FromCoordinator frame;
    frame.set_sequence(sequence);
    if (sequence == 4) frame.mutable_verdict()->set_reason(large);
    stream->Queue(std::move(frame));
  }
  stream->Flush();
  // The fourth is too large to go with others.
  const std::vector<std::vector<uint64_t>> expected = {{1, 2, 3}, {4}, {5, 6}};
  for (const std::vector<uint64_t>& numbers : expected) {
    proto::FromCoordinator frame;
    ASSERT_TRUE(client->Read(&frame)) << client->Finish().error_message();
    std::vector<uint64_t> came = {frame.sequence()};
    for (const auto& behind : frame.behind()) came.push_back(behind.sequence());
    EXPECT_EQ(came, numbers);
  }
  context.TryCancel();
  client->Finish();
}

TEST(SilentSessionTest, AConnectionOnWhichNoJoinComesIsEnded) {
  Keeper handler;
  const ServedEndpoint served(&handler, absl::Milliseconds(50));
  const auto stub = served.Connect();
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(Clock::Real()->Now() + kPatience));
  const auto client = stub->Session(&context);
  const grpc::Status ended = client->Finish();
  EXPECT_EQ(ended.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(ended.error_message(), "no Join came for 50ms");
}

}  // namespace
}  // namespace sluice

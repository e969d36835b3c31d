#include "ps_server/coordinator/session/coordinator_endpoint.h"

#include <grpcpp/grpcpp.h>

#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/process/named_thread.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/session/served_endpoint.h"

namespace sluice {
namespace {

// Far longer than an answer takes.
constexpr absl::Duration kPatience = absl::Seconds(20);
constexpr absl::Duration kRequestTimeout = absl::Milliseconds(50);

// Takes longer for a status than a request may take to come.
class Slow final : public CoordinatorEndpoint::Handler {
 public:
  void OnFrame(SessionStream*, const proto::ToCoordinator&) override {}
  void OnBroken(SessionStream*) override {}
  absl::Status CheckRun(const std::string&) override {
    return absl::OkStatus();
  }
  proto::JobStatus OnGetStatus() override {
    absl::Notification().WaitForNotificationWithTimeout(2 * kRequestTimeout);
    return {};
  }
  void OnStop(const proto::StopRequest&) override {}
  absl::StatusOr<proto::CheckpointReply> OnRequestCheckpoint() override {
    return proto::CheckpointReply();
  }
  absl::Status OnReportDeath(const proto::DeathReport&) override {
    return absl::OkStatus();
  }
};

grpc::StatusCode CodeOfGetStatus(const ServedEndpoint& served) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(Clock::Real()->Now() + kPatience));
  proto::JobStatus status;
  return served.Connect()->GetStatus(&context, {}, &status).error_code();
}

// While one call is answered, the requests of others come, and then their time
// is over: the queue holds both.
TEST(CoordinatorEndpointTest, ACallWhoseTimeIsOverBehindItsRequestIsAnswered) {
  Slow handler;
  const ServedEndpoint served(&handler, kRequestTimeout);
  constexpr int kCalls = 8;
  std::vector<grpc::StatusCode> codes(kCalls);
  std::vector<std::thread> callers;
  for (int i = 0; i < kCalls; ++i) {
    callers.push_back(
        StartThread("caller", [&, i] { codes[i] = CodeOfGetStatus(served); }));
  }
  for (std::thread& caller : callers) caller.join();
  int answered = 0;
  for (const grpc::StatusCode code : codes) {
    answered += code == grpc::StatusCode::OK;
    EXPECT_TRUE(code == grpc::StatusCode::OK ||
                code == grpc::StatusCode::DEADLINE_EXCEEDED)
        << code;
  }
  EXPECT_GE(answered, 2);
  EXPECT_EQ(CodeOfGetStatus(served), grpc::StatusCode::OK);
}

}  // namespace
}  // namespace sluice

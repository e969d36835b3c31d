// What a CoordinatorService asks before it says that a run goes on, or is over.
#include <grpcpp/grpcpp.h>

#include <atomic>
#include <cstdio>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/log/commit_log_file.h"
#include "ps_server/coordinator/session/coordinator_service.h"
#include "ps_server/coordinator/session/coordinator_service_testing.h"
#include "ps_server/coordinator/session/frame_limits.h"

namespace sluice {
namespace {

using ::sluice::testing::FakePeer;
using ::sluice::testing::JoinFrame;
using ::sluice::testing::kPatience;
using ::sluice::testing::Lead;
using ::sluice::testing::Peers;
using ::sluice::testing::RunOf;

TEST(GenerationEndTest, TheResultIsKeptBeforeAnybodyHearsOfTheEnd) {
  CoordinatorService::Options options = RunOf(1, 2, 50);
  std::atomic<Peers*> peers = nullptr;
  std::vector<JobState> kept;
  std::atomic<CoordinatorService*> service = nullptr;
  options.keep_result = [&](const JobState& state, const FinishRun& finish) {
    EXPECT_EQ(finish.failure, "");
    kept.push_back(state);
    EXPECT_EQ(service.load()->OnGetStatus().phase(), "finishing");
    for (auto& peer : peers.load()->all) {
      const auto received = peer->received();
      EXPECT_TRUE(received.empty() || !received.back().has_finish());
    }
    return absl::OkStatus();
  };
  Lead lead(std::move(options));
  service = &lead.service();
  Peers all(lead, 1, 1);
  peers = &all;
  FakePeer last(lead, proto::WORKER, 1);  // The run begins.
  lead.service().AwaitEnd();
  EXPECT_EQ(lead.service().OnGetStatus().phase(), "finished");
  ASSERT_EQ(kept.size(), 1);
  EXPECT_EQ(kept[0].version, Version(50));
  EXPECT_EQ(kept[0].phase, Phase::kFinished);
}

// Else a worker that only reconnects would fail, though the run ended well.
TEST(GenerationEndTest, WhoComesWhileTheResultIsKeptMayAskAgain) {
  CoordinatorService::Options options = RunOf(1, 1, 50);
  std::atomic<Lead*> lead = nullptr;
  absl::Notification built;
  grpc::Status told;
  options.keep_result = [&](const JobState&, const FinishRun&) {
    built.WaitForNotification();
    const auto stub = lead.load()->Stub();
    grpc::ClientContext context;
    const auto session = stub->Session(&context);
    session->Write(JoinFrame(proto::WORKER, 0));
    proto::FromCoordinator frame;
    EXPECT_FALSE(session->Read(&frame)) << frame.DebugString();
    told = session->Finish();
    return absl::OkStatus();
  };
  Lead made(std::move(options));
  lead = &made;
  built.Notify();
  Peers peers(made, 1, 1);
  EXPECT_EQ(std::get<FinishRun>(made.service().AwaitEnd()).failure, "");
  EXPECT_EQ(told.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(told.error_message(), "the run is over: 50 updates made");
}

// It is repeated to every task that it ends.
TEST(GenerationEndTest, TheReasonOfAStopIsCut) {
  Lead lead(RunOf(1, 1, 1000000000));
  Peers peers(lead, 1, 1);
  proto::StopRequest stop;
  stop.set_reason(std::string(10 * kMostReasonBytes, 'x'));
  lead.service().OnStop(stop);
  EXPECT_EQ(std::get<FinishRun>(lead.service().AwaitEnd()).reason,
            std::string(kMostReasonBytes, 'x'));
}

TEST(GenerationEndTest, AResultThatIsAnotherLeadsEndsNobodysRun) {
  CoordinatorService::Options options = RunOf(1, 1, 50);
  options.keep_result = [&](const JobState&, const FinishRun&) {
    return absl::PermissionDeniedError("generation 2 has been taken");
  };
  Lead lead(std::move(options));
  Peers peers(lead, 1, 1);
  EXPECT_TRUE(std::holds_alternative<Superseded>(lead.service().AwaitEnd()));
  for (auto& peer : peers.all) {
    ASSERT_TRUE(peer->AwaitConnected().ok());
    const auto received = peer->received();
    EXPECT_TRUE(received.empty() || !received.back().has_finish());
  }
}

TEST(GenerationEndTest, WhetherARunGoesOnIsAskedAgain) {
  const std::string path = ::testing::TempDir() + "/goes_on";
  std::remove(path.c_str());
  auto log = CommitLogWriter::Create(path, {});
  ASSERT_TRUE(log.ok()) << log.status();
  CoordinatorService::Options options = RunOf(1, 1, 20);
  options.core.job.mutable_limits()->set_storage_timeout_s(
      absl::ToDoubleSeconds(kPatience));
  std::vector<absl::Status> answers = {
      absl::OkStatus(), absl::ResourceExhaustedError("no space"),
      absl::UnavailableError("rename: Input/output error")};
  options.goes_on = [&] {
    const absl::Status answer = answers.back();
    answers.pop_back();
    return answer;
  };
  Lead lead(std::move(options), log->get());
  Peers peers(lead, 1, 1);
  EXPECT_EQ(std::get<FinishRun>(lead.service().AwaitEnd()).failure, "");
  EXPECT_EQ(lead.service().State().version, Version(20));
  EXPECT_TRUE(answers.empty());
}

TEST(GenerationEndTest, AGenerationThatIsAnotherLeadsEndsNobodysRun) {
  const std::string path = ::testing::TempDir() + "/taken";
  std::remove(path.c_str());
  auto log = CommitLogWriter::Create(path, {});
  ASSERT_TRUE(log.ok()) << log.status();
  CoordinatorService::Options options = RunOf(1, 1, 20);
  options.goes_on = [] {
    return absl::PermissionDeniedError("generation 3 has been taken");
  };
  Lead lead(std::move(options), log->get());
  Peers peers(lead, 1, 1);
  EXPECT_TRUE(std::holds_alternative<Superseded>(lead.service().AwaitEnd()));
}

}  // namespace
}  // namespace sluice

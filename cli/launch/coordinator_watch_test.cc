#include "cli/launch/coordinator_watch.h"

#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel_options.h"
#include "common/rpc/listening_sockets.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

class Answering : public proto::Coordinator::Service {
 public:
  explicit Answering(int64_t generation) : generation_(generation) {}
  grpc::Status GetStatus(grpc::ServerContext*,
                         const proto::StatusRequest* request,
                         proto::JobStatus* status) override {
    meant_ = request->run_id();
    status->set_generation(generation_);
    status->set_message(message_);
    return grpc::Status::OK;
  }

  grpc::Status Stop(grpc::ServerContext*, const proto::StopRequest* request,
                    proto::StopReply*) override {
    meant_ = request->run_id();
    return grpc::Status::OK;
  }
  grpc::Status RequestCheckpoint(grpc::ServerContext*,
                                 const proto::CheckpointRequest* request,
                                 proto::CheckpointReply*) override {
    meant_ = request->run_id();
    return grpc::Status::OK;
  }

  // Of the status.
  void set_message(const std::string& message) { message_ = message; }
  // Which run the last call named.
  std::string TakeMeant() { return std::exchange(meant_, ""); }

 private:
  const int64_t generation_;
  std::string message_;
  std::string meant_;
};

// A coordinator at `*port`; 0: a free one, which it becomes.
std::unique_ptr<grpc::Server> Start(Answering* service, int* port) {
  grpc::ServerBuilder builder;
  ApplyServerOptions(&builder);
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", *port),
                           grpc::InsecureServerCredentials(), port);
  builder.RegisterService(service);
  return builder.BuildAndStart();
}

TEST(CoordinatorWatchTest, AStatusOfManyWorkersMayBeLargerThanAnyOtherMessage) {
  int port = 0;
  Answering answering(1);
  answering.set_message(std::string(2 * kMaxMessageBytes, 'x'));
  const auto server = Start(&answering, &port);
  ASSERT_NE(server, nullptr);
  CoordinatorWatch watch({absl::StrCat("127.0.0.1:", port), ""});
  EXPECT_TRUE(watch.GetStatus().ok()) << watch.GetStatus().status();
  server->Shutdown();
}

TEST(CoordinatorWatchTest, ACoordinatorThatComesBackIsFoundByTheNextCall) {
  int port = 0;
  Answering first(1);
  auto server = Start(&first, &port);
  ASSERT_NE(server, nullptr);
  CoordinatorWatch watch({absl::StrCat("127.0.0.1:", port), ""});
  ASSERT_TRUE(watch.GetStatus().ok());
  server->Shutdown();
  server->Wait();
  server.reset();
  // However often it was not there.
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(watch.GetStatus().ok());
  Answering second(2);
  server = Start(&second, &port);
  ASSERT_NE(server, nullptr) << "port " << port << " was taken meanwhile";
  const auto status = watch.GetStatus();
  ASSERT_TRUE(status.ok()) << status.status();
  EXPECT_EQ(status->generation(), 2);
  EXPECT_FALSE(watch.ReportDeath({}).ok()) << "not served here";
  EXPECT_TRUE(watch.GetStatus().ok());
  server->Shutdown();
}

TEST(CoordinatorWatchTest, WhoDoesNotAnswerInTimeIsNamed) {
  // Connections are made, and nobody answers them.
  const auto silent = OpenListeningSockets("127.0.0.1:0");
  ASSERT_TRUE(silent.ok()) << silent.status();
  const std::string address =
      absl::StrCat("127.0.0.1:", PortOfSocket(silent->front()));
  CoordinatorWatch watch({address, ""}, nullptr, absl::Milliseconds(100));
  EXPECT_EQ(watch.GetStatus().status(),
            absl::DeadlineExceededError(absl::StrCat(
                "the coordinator at ", address,
                " has not answered within 100ms: it is paused, hangs, or is "
                "cut off")));
  close(silent->front());
}

TEST(CoordinatorWatchTest, EachRequestToTheRunNamesIt) {
  int port = 0;
  Answering answering(1);
  const auto server = Start(&answering, &port);
  ASSERT_NE(server, nullptr);
  CoordinatorWatch watch({absl::StrCat("127.0.0.1:", port), "mine"});
  EXPECT_TRUE(watch.GetStatus().ok());
  EXPECT_EQ(answering.TakeMeant(), "mine");
  EXPECT_TRUE(watch.Stop("enough").ok());
  EXPECT_EQ(answering.TakeMeant(), "mine");
  EXPECT_TRUE(watch.RequestCheckpoint().ok());
  EXPECT_EQ(answering.TakeMeant(), "mine");
  server->Shutdown();
}

}  // namespace
}  // namespace sluice

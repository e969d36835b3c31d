#include "cli/launch/coordinator_watch.h"

#include <grpcpp/grpcpp.h>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

class Answering : public proto::Coordinator::Service {
 public:
  explicit Answering(int64_t generation) : generation_(generation) {}
  grpc::Status GetStatus(grpc::ServerContext*, const proto::StatusRequest*,
                         proto::JobStatus* status) override {
    status->set_generation(generation_);
    return grpc::Status::OK;
  }

 private:
  const int64_t generation_;
};

// A coordinator at `*port`; 0: a free one, which it becomes.
std::unique_ptr<grpc::Server> Start(Answering* service, int* port) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(absl::StrCat("127.0.0.1:", *port),
                           grpc::InsecureServerCredentials(), port);
  builder.RegisterService(service);
  return builder.BuildAndStart();
}

TEST(CoordinatorWatchTest, ACoordinatorThatComesBackIsFoundByTheNextCall) {
  int port = 0;
  Answering first(1);
  auto server = Start(&first, &port);
  ASSERT_NE(server, nullptr);
  CoordinatorWatch watch(absl::StrCat("127.0.0.1:", port));
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
  EXPECT_FALSE(watch.Stop("not served here").ok());
  EXPECT_TRUE(watch.GetStatus().ok());
  server->Shutdown();
}

}  // namespace
}  // namespace sluice

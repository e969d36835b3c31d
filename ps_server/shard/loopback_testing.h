#ifndef SLUICE_PS_SERVER_SHARD_LOOPBACK_TESTING_H_
#define SLUICE_PS_SERVER_SHARD_LOOPBACK_TESTING_H_

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel_options.h"
#include "common/rpc/deadline.h"
#include "common/rpc/status_conversion.h"
#include "gtest/gtest.h"
#include "proto/exchange.grpc.pb.h"
#include "ps_server/shard/exchange_service.h"
#include "ps_server/shard/loopback_client.h"
#include "ps_server/shard/shard_testing.h"

// A shard behind real gRPC on a free port.
namespace sluice::testing {

// One shard, which has executed FirstRestore().
//
// Not thread-safe: call from the thread of the test.
class Loopback {
 public:
  explicit Loopback(ShardOptions options,
                    absl::Duration stall = absl::Seconds(30),
                    ExchangeService::TakeReady take_ready = nullptr)
      : shard_(std::move(options)), exchange_(&shard_, Clock::Real(), stall) {
    grpc::ServerBuilder builder;
    int port = 0;
    ApplyServerOptions(&builder);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    exchange_.Register(&builder);
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr);
    address_ = absl::StrCat("127.0.0.1:", port);
    exchange_.Start(std::move(take_ready));
    EXPECT_TRUE(Execute(FirstRestore()).ok());
  }
  ~Loopback() { Stop(); }

  void Stop() {
    server_->Shutdown(After(absl::ZeroDuration()));
    exchange_.Shutdown();
  }

  std::shared_ptr<grpc::Channel> Connect() {
    grpc::ChannelArguments arguments = BulkChannelArguments(Window::kMessage);
    arguments.SetMaxSendMessageSize(-1);  // So that the server must refuse.
    return grpc::CreateCustomChannel(
        address_, grpc::InsecureChannelCredentials(), arguments);
  }
  std::unique_ptr<proto::Exchange::Stub> Client() {
    return proto::Exchange::NewStub(Connect());
  }

  // Executes the next decision; blocks until it is done.
  template <typename What>
  absl::Status Execute(What what) {
    std::promise<absl::Status> done;
    exchange_.Execute(
        {++number_, std::move(what)},
        [&done](const absl::StatusOr<Shard::Executed>& outcome, int64_t,
                Version) { done.set_value(outcome.status()); });
    return done.get_future().get();
  }

  // Lets the exchange thread find all of `decisions` at once, and calls `after`
  // on it after each; blocks until they are done.
  void ExecuteTogether(std::vector<AnyDecision> decisions,
                       const std::function<void()>& after) {
    std::promise<void> all_there, done;
    exchange_.Execute({++number_, Discard{{Key(1000 + number_)}}},
                      [&](const absl::StatusOr<Shard::Executed>&, int64_t,
                          Version) { all_there.get_future().wait(); });
    const int64_t last = number_ + static_cast<int64_t>(decisions.size());
    for (AnyDecision& decision : decisions) {
      exchange_.Execute(
          {++number_, std::move(decision)},
          [&, last](const absl::StatusOr<Shard::Executed>& outcome,
                    int64_t executed, Version) {
            EXPECT_TRUE(outcome.ok()) << outcome.status();
            after();
            if (executed == last) done.set_value();
          });
    }
    all_there.set_value();
    done.get_future().wait();
  }

  // Waits until a counter reaches `value`.
  void Await(int64_t ExchangeCounters::*counter, int64_t value) {
    const absl::Time deadline = Clock::Real()->Now() + kPatience;
    while (exchange_.counters().*counter < value) {
      ASSERT_LT(Clock::Real()->Now(), deadline)
          << "counter is " << exchange_.counters().*counter;
      std::this_thread::yield();
    }
  }
  ExchangeCounters counters() const { return exchange_.counters(); }

 private:
  Shard shard_;
  ExchangeService exchange_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  int64_t number_ = 0;
};

}  // namespace sluice::testing

#endif  // SLUICE_PS_SERVER_SHARD_LOOPBACK_TESTING_H_

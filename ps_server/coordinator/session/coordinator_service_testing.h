#ifndef SLUICE_PS_SERVER_COORDINATOR_SESSION_COORDINATOR_SERVICE_TESTING_H_
#define SLUICE_PS_SERVER_COORDINATOR_SESSION_COORDINATOR_SERVICE_TESTING_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/rpc/channel_options.h"
#include "common/session/coordinator_client.h"
#include "gtest/gtest.h"
#include "ps_server/coordinator/session/coordinator_service.h"

// A coordinator behind real gRPC, and peers that answer without computing.
namespace sluice::testing {

// Longer than anything here takes; reached only when something hangs.
inline constexpr absl::Duration kPatience = absl::Seconds(30);

// A small ASYNC run that stops after so many updates.
CoordinatorService::Options RunOf(int shards, int workers, int64_t updates);

// A coordinator on a free port.
//
// Not thread-safe: call from the thread of the test.
class Lead {
 public:
  explicit Lead(CoordinatorService::Options options,
                CommitLogWriter* log = nullptr)
      : service_(std::move(options), log, nullptr, nullptr) {
    Serve();
  }
  ~Lead() { StopServing(); }

  // Breaks every connection and listens again at the same address.
  void BreakConnections() {
    StopServing();
    Serve();
  }

  std::string address() const { return absl::StrCat("127.0.0.1:", port_); }
  CoordinatorService& service() { return service_; }
  std::unique_ptr<proto::Coordinator::Stub> Stub() const {
    return proto::Coordinator::NewStub(
        grpc::CreateCustomChannel(address(), grpc::InsecureChannelCredentials(),
                                  SessionChannelArguments()));
  }

 private:
  void Serve() {
    grpc::ServerBuilder builder;
    ApplyServerOptions(&builder);
    endpoint_ = std::make_unique<CoordinatorEndpoint>(&service_);
    endpoint_->Register(&builder);
    builder.AddListeningPort(address(), grpc::InsecureServerCredentials(),
                             &port_);
    server_ = builder.BuildAndStart();
    ASSERT_NE(server_, nullptr);
    endpoint_->Start();
  }
  void StopServing() {
    server_->Shutdown(absl::ToChronoTime(absl::UnixEpoch()));
    endpoint_->Shutdown();
    server_.reset();
    endpoint_.reset();
  }

  CoordinatorService service_;
  int port_ = 0;
  std::unique_ptr<CoordinatorEndpoint> endpoint_;
  std::unique_ptr<grpc::Server> server_;
};

proto::Join JoinOf(proto::Role role, int64_t id);
proto::ToCoordinator JoinFrame(proto::Role role, int64_t id);

// A process that answers as a worker or a shard would, without computing. The
// constructor does not block; the destructor ends the session without a word.
//
// Thread-safe.
class FakePeer {
 public:
  // `say`: how a worker answers its tasks; null: on its session.
  FakePeer(const Lead& lead, proto::Role role, int64_t id, int shards = 1,
           std::function<void(const proto::Ready&)> say = nullptr);
  ~FakePeer() {
    AwaitConnected().IgnoreError();
    thread_.join();
  }

  absl::Status AwaitConnected() {
    absl::MutexLock lock(&mu_);
    if (!mu_.AwaitWithTimeout(absl::Condition(&connected_), kPatience)) {
      return absl::DeadlineExceededError("not connected");
    }
    return status_;
  }
  bool connected() {
    absl::MutexLock lock(&mu_);
    return connected_;
  }
  // REQUIRES: AwaitConnected() has returned OK.
  CoordinatorClient& client() {
    absl::MutexLock lock(&mu_);
    return *client_;
  }
  std::vector<proto::FromCoordinator> received() {
    absl::MutexLock lock(&mu_);
    return received_;
  }
  // Blocks until so many messages have come; false after kPatience.
  bool AwaitReceived(size_t count) {
    absl::MutexLock lock(&mu_);
    while (received_.size() < count) {
      if (arrived_.WaitWithTimeout(&mu_, kPatience)) return false;
    }
    return true;
  }

 private:
  void OnMessage(const proto::FromCoordinator& message);

  const int shards_;
  const std::function<void(const proto::Ready&)> say_;
  int64_t version_ = 0;  // Reader thread only.

  absl::Mutex mu_;
  absl::CondVar arrived_;
  bool connected_ ABSL_GUARDED_BY(mu_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
  std::vector<proto::FromCoordinator> received_ ABSL_GUARDED_BY(mu_);
  std::vector<proto::ToCoordinator> early_ ABSL_GUARDED_BY(mu_);
  std::unique_ptr<CoordinatorClient> client_ ABSL_GUARDED_BY(mu_);

  std::thread thread_;
};

struct Peers {
  Peers(const Lead& lead, int shards, int workers) {
    for (int i = 0; i < workers; ++i) {
      all.push_back(std::make_unique<FakePeer>(lead, proto::WORKER, i, shards));
    }
    for (int i = 0; i < shards; ++i) {
      all.push_back(std::make_unique<FakePeer>(lead, proto::SHARD, i, shards));
    }
  }
  std::vector<std::unique_ptr<FakePeer>> all;
};

// Every message has come once and in order.
void ExpectNumbered(const std::vector<proto::FromCoordinator>& messages);

}  // namespace sluice::testing

#endif  // SLUICE_PS_SERVER_COORDINATOR_SESSION_COORDINATOR_SERVICE_TESTING_H_

#ifndef SLUICE_PS_SERVER_COORDINATOR_SESSION_SERVED_ENDPOINT_H_
#define SLUICE_PS_SERVER_COORDINATOR_SESSION_SERVED_ENDPOINT_H_

#include <grpcpp/grpcpp.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/rpc/channel_options.h"
#include "common/rpc/deadline.h"
#include "gtest/gtest.h"
#include "proto/coordinator.grpc.pb.h"
#include "ps_server/coordinator/session/coordinator_endpoint.h"

namespace sluice {

// For tests: a Coordinator service that listens on the loopback, and where.
class ServedEndpoint {
 public:
  // `handler` must outlive this.
  explicit ServedEndpoint(CoordinatorEndpoint::Handler* handler,
                          absl::Duration first_timeout = absl::Seconds(10))
      : endpoint_(handler, TransportSecurity(), /*listener=*/nullptr,
                  first_timeout) {
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
  ~ServedEndpoint() {
    server_->Shutdown(FromNow(absl::ZeroDuration()));
    endpoint_.Shutdown();
  }

  const std::string& address() const { return address_; }

  std::unique_ptr<proto::Coordinator::Stub> Connect() const {
    return proto::Coordinator::NewStub(
        grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(),
                                  SessionChannelArguments()));
  }

 private:
  CoordinatorEndpoint endpoint_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_COORDINATOR_SESSION_SERVED_ENDPOINT_H_

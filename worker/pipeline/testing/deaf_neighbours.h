#ifndef SLUICE_WORKER_PIPELINE_TESTING_DEAF_NEIGHBOURS_H_
#define SLUICE_WORKER_PIPELINE_TESTING_DEAF_NEIGHBOURS_H_

#include <grpcpp/create_channel.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string>

#include "absl/synchronization/notification.h"
#include "proto/member.grpc.pb.h"

// Neighbours of worker 3's members that link, and then neither read nor say
// anything, as a process that stands still.
namespace sluice {

// Member 1, which links to the one that listens at `address`.
class DeafBehind {
 public:
  explicit DeafBehind(const std::string& address)
      : stub_(proto::Member::NewStub(grpc::CreateChannel(
            address, grpc::InsecureChannelCredentials()))) {}
  ~DeafBehind() {
    if (context_ == nullptr) return;
    context_->TryCancel();
    stream_->Finish();
  }

  // Tries until the one before awaits it.
  void Link() {
    proto::ToUpstream hello;
    hello.mutable_hello()->set_worker(3);
    hello.mutable_hello()->set_member(1);
    hello.mutable_hello()->set_fingerprint("f");
    while (true) {
      context_ = std::make_unique<grpc::ClientContext>();
      context_->set_wait_for_ready(true);
      stream_ = stub_->Link(context_.get());
      stream_->Write(hello);
      stream_->WaitForInitialMetadata();
      if (context_->GetServerInitialMetadata().count("sluice-linked") > 0)
        return;
      stream_->Finish();
    }
  }

 private:
  const std::unique_ptr<proto::Member::Stub> stub_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<
      grpc::ClientReaderWriter<proto::ToUpstream, proto::ToDownstream>>
      stream_;
};

// Member 0, which listens at `address`.
class DeafBefore final : private proto::Member::Service {
 public:
  explicit DeafBefore(const std::string& address) {
    grpc::ServerBuilder builder;
    builder.AddListeningPort(address, grpc::InsecureServerCredentials());
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
  }
  ~DeafBefore() override {
    over_.Notify();
    server_->Shutdown(gpr_inf_past(GPR_CLOCK_MONOTONIC));
  }

 private:
  grpc::Status Link(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<proto::ToDownstream, proto::ToUpstream>* stream)
      override {
    context->AddInitialMetadata("sluice-linked", "1");
    stream->SendInitialMetadata();
    over_.WaitForNotification();
    return grpc::Status::OK;
  }

  absl::Notification over_;
  std::unique_ptr<grpc::Server> server_;
};

}  // namespace sluice

#endif  // SLUICE_WORKER_PIPELINE_TESTING_DEAF_NEIGHBOURS_H_

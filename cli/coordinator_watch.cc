#include "cli/coordinator_watch.h"

#include <grpcpp/grpcpp.h>

#include "common/rpc/channel_options.h"
#include "common/rpc/status_conversion.h"

namespace sluice {

CoordinatorWatch::CoordinatorWatch(const std::string& address, Clock* clock)
    : clock_(clock),
      stub_(proto::Coordinator::NewStub(
          grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(),
                                    SessionChannelArguments()))) {}

absl::StatusOr<proto::JobStatus> CoordinatorWatch::GetStatus() {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(clock_->Now() + kPatience));
  proto::JobStatus status;
  const absl::Status result = FromGrpcStatus(
      stub_->GetStatus(&context, proto::StatusRequest(), &status));
  if (!result.ok()) return result;
  return status;
}

absl::Status CoordinatorWatch::Stop(const std::string& reason) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(clock_->Now() + kPatience));
  proto::StopRequest request;
  request.set_reason(reason);
  proto::StopReply reply;
  return FromGrpcStatus(stub_->Stop(&context, request, &reply));
}

}  // namespace sluice

#include "cli/launch/coordinator_watch.h"

#include <grpcpp/grpcpp.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel_options.h"
#include "common/rpc/deadline.h"
#include "common/rpc/status_conversion.h"

namespace sluice {

absl::StatusOr<TransportSecurity> OpenAsOperator(const std::string& tls,
                                                 const std::string& job,
                                                 Clock* clock) {
  if (tls.empty()) return TransportSecurity();
  TlsFlags own;
  own.folder = absl::StrCat(tls, "/", TlsRoleName(TlsRole::kOperator));
  return TransportSecurity::Open(own, job, TlsRole::kOperator, clock);
}

CoordinatorWatch::CoordinatorWatch(
    LeadAddress address, std::shared_ptr<grpc::ChannelCredentials> credentials,
    absl::Duration patience)
    : address_(std::move(address)),
      credentials_(credentials ? std::move(credentials)
                               : grpc::InsecureChannelCredentials()),
      patience_(patience) {
  Connect();
}

void CoordinatorWatch::Connect() {
  stub_ = proto::Coordinator::NewStub(grpc::CreateCustomChannel(
      address_.host_port, credentials_, StatusChannelArguments()));
}

absl::Status CoordinatorWatch::Check(const grpc::Status& result) {
  const absl::Status status = FromFirstCall(result);
  // After a failed attempt a channel waits for seconds before the next one, and
  // every call until then fails at once. A new channel tries at once, so that a
  // coordinator that is back is seen by the next call.
  if (!status.ok()) Connect();
  if (!absl::IsDeadlineExceeded(status)) return status;
  return absl::DeadlineExceededError(absl::StrCat(
      "the coordinator at ", address_.host_port, " has not answered within ",
      absl::FormatDuration(patience_), ": it is paused, hangs, or is cut off"));
}

absl::StatusOr<proto::JobStatus> CoordinatorWatch::GetStatus() {
  grpc::ClientContext context;
  SetTimeout(patience_, &context);
  proto::StatusRequest request;
  request.set_run_id(address_.run_id);
  proto::JobStatus status;
  const absl::Status result =
      Check(stub_->GetStatus(&context, request, &status));
  if (!result.ok()) return result;
  return status;
}

absl::StatusOr<proto::JobStatus> CoordinatorWatch::Stop(
    const std::string& reason) {
  grpc::ClientContext context;
  SetTimeout(patience_, &context);
  proto::StopRequest request;
  request.set_run_id(address_.run_id);
  request.set_reason(reason);
  proto::StopReply reply;
  const absl::Status result = Check(stub_->Stop(&context, request, &reply));
  if (!result.ok()) return result;
  return std::move(*reply.mutable_status());
}

absl::StatusOr<int64_t> CoordinatorWatch::RequestCheckpoint() {
  grpc::ClientContext context;
  SetTimeout(patience_, &context);
  proto::CheckpointRequest request;
  request.set_run_id(address_.run_id);
  proto::CheckpointReply reply;
  const absl::Status result =
      Check(stub_->RequestCheckpoint(&context, request, &reply));
  if (!result.ok()) return result;
  return reply.version();
}

absl::Status CoordinatorWatch::ReportDeath(const proto::DeathReport& report) {
  grpc::ClientContext context;
  SetTimeout(patience_, &context);
  proto::DeathReportReply reply;
  return Check(stub_->ReportDeath(&context, report, &reply));
}

}  // namespace sluice

// A call exists from Listen on, before a client calls; when one does, Listen
// makes the next. So `calls` counts one waiting call of each kind besides those
// that are answered, and the queue is shut when the last of them has ended:
// gRPC must not be given an operation on a queue that is shut.
//
// Nothing is read of a call before its caller has been admitted.
#include "ps_server/coordinator/session/coordinator_endpoint.h"

#include <grpcpp/alarm.h>
#include <grpcpp/support/async_stream.h>

#include <functional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/process/named_thread.h"
#include "common/rpc/completion_tag.h"
#include "common/rpc/deadline.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// A call with one request and one reply, and after it the next one of its
// kind. Deletes itself.
template <typename Request, typename Reply>
class RequestCall final : public QueuedCall {
 public:
  using Answer = std::function<absl::StatusOr<Reply>(const Request&)>;

  static void Listen(SessionStream::Context* context, Rpc rpc, Answer answer) {
    auto* const call = new RequestCall(context, rpc, std::move(answer));
    context->service.Accept(NumberOf(rpc), &call->call_, &call->stream_,
                            context->queue.get(), call->on_call_.Begin());
  }

 private:
  RequestCall(SessionStream::Context* context, Rpc rpc, Answer answer)
      : context_(context), rpc_(rpc), answer_(std::move(answer)) {
    context_->calls.Begin();
  }
  ~RequestCall() override { context_->calls.End(context_->queue.get()); }

  void OnCall(bool ok) {
    if (!ok) return;  // The server is shutting down.
    Listen(context_, rpc_, answer_);
    auto place = context_->admission.Admit(call_, rpc_);
    if (!place.ok()) return Finish(place.status());
    place_ = *std::move(place);
    alarm_.Set(context_->queue.get(), FromNow(context_->first_timeout),
               on_alarm_.Begin());
    stream_.Read(&request_, on_request_.Begin());
  }
  void OnRequest(bool ok) {
    if (finished_) return;  // It has come too late.
    alarm_.Cancel();
    place_.Took(static_cast<int64_t>(request_.ByteSizeLong()));
    if (!ok) {
      return Finish(absl::InvalidArgumentError(
          absl::StrCat(RpcName(rpc_), " came without a request that is one")));
    }
    const absl::StatusOr<Reply> reply = answer_(request_);
    if (!reply.ok()) return Finish(reply.status());
    finished_ = true;
    stream_.WriteAndFinish(*reply, grpc::WriteOptions(), grpc::Status::OK,
                           on_finished_.Begin());
  }
  void OnAlarm(bool ok) {
    // Cancelled, or in the queue behind the request already.
    if (!ok || finished_) return;
    Finish(absl::DeadlineExceededError(
        absl::StrCat(RpcName(rpc_), " brought no request for ",
                     absl::FormatDuration(context_->first_timeout))));
  }
  void OnFinished(bool ok) {}

  void Finish(const absl::Status& status) {
    finished_ = true;
    stream_.Finish(ToGrpcStatus(status), on_finished_.Begin());
  }

  SessionStream::Context* const context_;
  const Rpc rpc_;
  const Answer answer_;
  grpc::ServerContext call_;
  grpc::ServerAsyncReaderWriter<Reply, Request> stream_{&call_};
  Admission::Place place_;
  Request request_;
  grpc::Alarm alarm_;  // While the request is on its way.
  bool finished_ = false;
  Tag<RequestCall, &RequestCall::OnCall> on_call_{this};
  Tag<RequestCall, &RequestCall::OnRequest> on_request_{this};
  Tag<RequestCall, &RequestCall::OnAlarm> on_alarm_{this};
  Tag<RequestCall, &RequestCall::OnFinished> on_finished_{this};
};

}  // namespace

CoordinatorEndpoint::CoordinatorEndpoint(Handler* handler,
                                         const TransportSecurity& security,
                                         Listener* listener,
                                         absl::Duration first_timeout)
    : context_(Admission(security, listener)) {
  context_.first_timeout = first_timeout;
  SetHandler(handler);
}

void CoordinatorEndpoint::SetHandler(Handler* handler) {
  handler_ = handler;
  context_.handler = handler;
}

CoordinatorEndpoint::~CoordinatorEndpoint() {
  SLUICE_CHECK(!thread_.joinable());
}

void CoordinatorEndpoint::Register(grpc::ServerBuilder* builder,
                                   bool begins_connections) {
  builder->RegisterService(&context_.service);
  context_.queue =
      builder->AddCompletionQueue(/*is_frequently_polled=*/begins_connections);
}

void CoordinatorEndpoint::Start() {
  SessionStream::Listen(&context_);
  const auto status_now = [this] {
    proto::JobStatus status = handler_->OnGetStatus();
    status.set_insecure(context_.admission.security().insecure());
    return status;
  };
  RequestCall<proto::StatusRequest, proto::JobStatus>::Listen(
      &context_, Rpc::kGetStatus,
      [this,
       status_now](const auto& request) -> absl::StatusOr<proto::JobStatus> {
        SLUICE_RETURN_IF_ERROR(handler_->CheckRun(request.run_id()));
        return status_now();
      });
  RequestCall<proto::StopRequest, proto::StopReply>::Listen(
      &context_, Rpc::kStop,
      [this,
       status_now](const auto& request) -> absl::StatusOr<proto::StopReply> {
        SLUICE_RETURN_IF_ERROR(handler_->CheckRun(request.run_id()));
        handler_->OnStop(request);
        proto::StopReply reply;
        *reply.mutable_status() = status_now();
        return reply;
      });
  RequestCall<proto::CheckpointRequest, proto::CheckpointReply>::Listen(
      &context_, Rpc::kRequestCheckpoint,
      [this](const auto& request) -> absl::StatusOr<proto::CheckpointReply> {
        SLUICE_RETURN_IF_ERROR(handler_->CheckRun(request.run_id()));
        return handler_->OnRequestCheckpoint();
      });
  RequestCall<proto::DeathReport, proto::DeathReportReply>::Listen(
      &context_, Rpc::kReportDeath,
      [this](const auto& report) -> absl::StatusOr<proto::DeathReportReply> {
        SLUICE_RETURN_IF_ERROR(handler_->OnReportDeath(report));
        return proto::DeathReportReply();
      });
  thread_ = StartThread("coordinator", [this] { Serve(); });
}

void CoordinatorEndpoint::Serve() { ServeQueue(context_.queue.get()); }

void CoordinatorEndpoint::Shutdown() {
  if (std::exchange(shut_, true) || context_.queue == nullptr) return;
  context_.calls.ShutWhenDone(context_.queue.get());
  // A queue must be shut and empty before it goes, used or not.
  if (thread_.joinable()) {
    thread_.join();
  } else {
    Serve();
  }
}

}  // namespace sluice

// A call exists from Listen on, before a client calls; when one does, Listen
// makes the next. So `calls` counts one waiting call of each kind besides those
// that are answered, and the queue is shut when the last of them has ended:
// gRPC must not be given an operation on a queue that is shut.
#include "ps_server/coordinator/session/coordinator_endpoint.h"

#include <functional>
#include <utility>

#include "absl/status/statusor.h"
#include "common/named_thread.h"
#include "common/rpc/status_conversion.h"
#include "common/status_macros.h"

namespace sluice {
namespace {

// A call with one request and one reply, and after it the next one of its
// kind. Deletes itself.
template <typename Request, typename Reply>
class UnaryCall final : public CompletionTag {
 public:
  using Service = proto::Coordinator::AsyncService;
  using Next = void (Service::*)(grpc::ServerContext*, Request*,
                                 grpc::ServerAsyncResponseWriter<Reply>*,
                                 grpc::CompletionQueue*,
                                 grpc::ServerCompletionQueue*, void*);
  using Answer = std::function<absl::StatusOr<Reply>(const Request&)>;

  static void Listen(SessionStream::Context* context, Next next,
                     Answer answer) {
    auto* const call = new UnaryCall(context, next, std::move(answer));
    context->calls.Begin();
    (context->service.*next)(&call->call_, &call->request_, &call->writer_,
                             context->queue.get(), context->queue.get(),
                             call->address());
  }

  void Complete(bool ok) override {
    if (ok && !answered_) {
      answered_ = true;
      Listen(context_, next_, answer_);
      const absl::StatusOr<Reply> reply = answer_(request_);
      if (reply.ok()) {
        return writer_.Finish(*reply, grpc::Status::OK, address());
      }
      return writer_.FinishWithError(ToGrpcStatus(reply.status()), address());
    }
    SessionStream::Context* const context = context_;
    delete this;
    context->calls.End(context->queue.get());
  }

 private:
  UnaryCall(SessionStream::Context* context, Next next, Answer answer)
      : context_(context), next_(next), answer_(std::move(answer)) {}

  SessionStream::Context* const context_;
  const Next next_;
  const Answer answer_;
  bool answered_ = false;
  grpc::ServerContext call_;
  Request request_;
  grpc::ServerAsyncResponseWriter<Reply> writer_{&call_};
};

}  // namespace

CoordinatorEndpoint::CoordinatorEndpoint(Handler* handler) {
  SetHandler(handler);
}

void CoordinatorEndpoint::SetHandler(Handler* handler) {
  handler_ = handler;
  context_.handler = handler;
}

CoordinatorEndpoint::~CoordinatorEndpoint() {
  SLUICE_CHECK(!thread_.joinable());
}

void CoordinatorEndpoint::Register(grpc::ServerBuilder* builder) {
  builder->RegisterService(&context_.service);
  context_.queue = builder->AddCompletionQueue();
}

void CoordinatorEndpoint::Start() {
  using Service = proto::Coordinator::AsyncService;
  SessionStream::Listen(&context_);
  UnaryCall<proto::StatusRequest, proto::JobStatus>::Listen(
      &context_, &Service::RequestGetStatus,
      [this](const auto&) { return handler_->OnGetStatus(); });
  UnaryCall<proto::StopRequest, proto::StopReply>::Listen(
      &context_, &Service::RequestStop, [this](const auto& request) {
        handler_->OnStop(request);
        return proto::StopReply();
      });
  UnaryCall<proto::DeathReport, proto::DeathReportReply>::Listen(
      &context_, &Service::RequestReportDeath,
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

#include <utility>

#include "common/rpc/status_conversion.h"
#include "common/wire/chunk_codec.h"
#include "common/wire/shared_handshake.h"
#include "proto/exchange.pb.h"
#include "ps_server/shard/exchange_calls.h"

namespace sluice {

void ShareCall::Listen(ExchangeContext* context) {
  auto* call = new ShareCall(context);
  call->call_.AsyncNotifyWhenDone(call->on_done_.address());
  context->service.Accept(kShareNumber, &call->call_, &call->stream_,
                          context->queue.get(), call->on_call_.Begin());
}

ShareCall::ShareCall(ExchangeContext* context)
    : context_(context), stream_(&call_) {
  ++context_->calls;
}

ShareCall::~ShareCall() { context_->CallGone(); }

void ShareCall::OnCall(bool ok) {
  if (!ok) return;  // The server is shutting down.
  on_done_.Begin();
  if (!context_->stopping) Listen(context_);
  auto place = context_->admission.Admit(call_, Rpc::kShare);
  if (!place.ok()) return Refuse(place.status());
  place_ = *std::move(place);
  context_->watch.Begin(this);
  stream_.Read(&request_, on_request_.Begin());
}

void ShareCall::OnRequest(bool ok) {
  context_->watch.End(this);
  if (finished_) return;  // It has come too late.
  place_.Took(static_cast<int64_t>(request_.Length()));
  proto::ShareRequest request;
  const absl::Status parsed =
      ok ? DecodeMessage(request_, &request)
         : absl::InvalidArgumentError("the call came without a request");
  if (!parsed.ok()) return Refuse(parsed);
  if (context_->links == nullptr) {
    return Refuse(absl::FailedPreconditionError(
        "this shard shares no memory (wire.shared_memory)"));
  }
  proto::ShareReply reply;
  reply.set_host(HostIdentity());
  reply.set_socket(context_->links->socket_name());
  reply.set_secret(context_->links->Invite(place_.caller().key));
  finished_ = true;
  stream_.WriteAndFinish(EncodeMessage(reply), grpc::WriteOptions(),
                         grpc::Status::OK, on_finished_.Begin());
}

void ShareCall::OnStalled(absl::Duration silent) {
  Refuse(absl::DeadlineExceededError(absl::StrCat(
      "the call has said nothing for ", absl::FormatDuration(silent))));
}

void ShareCall::Refuse(const absl::Status& status) {
  context_->watch.End(this);
  finished_ = true;
  stream_.Finish(ToGrpcStatus(status), on_finished_.Begin());
}

}  // namespace sluice

#ifndef SLUICE_PS_SERVER_SHARD_PUSH_CALL_H_
#define SLUICE_PS_SERVER_SHARD_PUSH_CALL_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ps_server/shard/queued_call.h"
#include "ps_server/shard/exchange_context.h"

namespace sluice {

// One Push: take chunks until the gradient is staged or one is refused.
// Deletes itself.
//
// Not thread-safe: call from the exchange thread.
class PushCall : public QueuedCall {
 public:
  // Accepts one call, and listens again when it came.
  static void Listen(ExchangeContext* context);

 private:
  explicit PushCall(ExchangeContext* context);
  ~PushCall() override;

  void OnRequest(bool ok);
  void OnRead(bool ok);
  void OnFinished(bool ok) {}
  void OnDone(bool ok);

  // Begins to read the next chunk into `chunk_`.
  void ReadChunk();
  // Stages a chunk; whether the gradient is staged now.
  absl::StatusOr<bool> Stage(const grpc::ByteBuffer& message);
  void Accept();
  void EndEarly();
  void Refuse(const absl::Status& status);
  void Finish(const absl::Status& status);

  ExchangeContext* const context_;
  grpc::ServerContext call_;
  grpc::ByteBuffer chunk_;
  grpc::ServerAsyncReader<grpc::ByteBuffer, grpc::ByteBuffer> reader_;
  Tag<PushCall, &PushCall::OnRequest> on_request_{this};
  Tag<PushCall, &PushCall::OnRead> on_read_{this};
  Tag<PushCall, &PushCall::OnFinished> on_finished_{this};
  Tag<PushCall, &PushCall::OnDone> on_done_{this};

  std::optional<GradientKey> key_;  // Of the first chunk.
  bool finished_ = false;
  bool ended_early_ = false;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_PUSH_CALL_H_

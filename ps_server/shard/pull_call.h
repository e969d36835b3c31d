#ifndef SLUICE_PS_SERVER_SHARD_PULL_CALL_H_
#define SLUICE_PS_SERVER_SHARD_PULL_CALL_H_

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <optional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/wire/chunk_codec.h"
#include "ps_server/shard/exchange_context.h"
#include "ps_server/shard/queued_call.h"

namespace sluice {

// One Pull: wait for the version if need be, then send its chunks from where
// they lie, all or from where an earlier call broke off. Given up when the
// caller takes nothing for too long. Deletes itself.
//
// Not thread-safe: call from the exchange thread.
class PullCall : public QueuedCall {
 public:
  // Accepts one call, and listens again when it came.
  static void Listen(ExchangeContext* context);

  // A decision was executed: the version may be there now. For parked calls.
  void Retry();
  // The shard has ended this call's read.
  void EndRead();

 private:
  explicit PullCall(ExchangeContext* context);
  ~PullCall() override;

  void OnRequest(bool ok);
  void OnSent(bool ok);
  void OnAlarm(bool ok);
  void OnStallAlarm(bool ok);
  void OnFinished(bool ok) {}
  void OnDone(bool ok);

  // Takes over what is asked for; kInvalidArgument says what is wrong with it.
  absl::Status Parse();
  // Serves, parks or refuses.
  void Answer();
  void Park();
  void Unpark();
  void SendNext();
  // Looks again when the chunk that is being sent would have stalled.
  void WatchStall();
  // What a chunk carries. REQUIRES: `read_`.
  ChunkData DataOf(int chunk) const;
  void LetGo();
  void Finish(const absl::Status& status);
  // How long the call may wait for its version.
  absl::Duration ParkTime() const;

  ExchangeContext* const context_;
  grpc::ServerContext call_;
  grpc::ByteBuffer request_;
  grpc::ServerAsyncWriter<grpc::ByteBuffer> writer_;
  Tag<PullCall, &PullCall::OnRequest> on_request_{this};
  Tag<PullCall, &PullCall::OnSent> on_sent_{this};
  Tag<PullCall, &PullCall::OnAlarm> on_alarm_{this};
  Tag<PullCall, &PullCall::OnStallAlarm> on_stall_alarm_{this};
  Tag<PullCall, &PullCall::OnFinished> on_finished_{this};
  Tag<PullCall, &PullCall::OnDone> on_done_{this};

  Shard::PullQuery query_;
  FloatType type_ = FloatType::kUnspecified;  // Asked for.
  std::optional<grpc::Alarm> alarm_;  // While parked, and until it has rung.
  // While sending. The read is ended, and `ended_` set, if it takes too long.
  std::optional<WeightStore::Read> read_;
  int next_chunk_ = 0;
  std::optional<grpc::Alarm> stall_alarm_;  // While sending several chunks.
  absl::Time sent_at_;                      // The chunk that is being sent.
  bool ended_ = false;
  bool finished_ = false;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_PULL_CALL_H_

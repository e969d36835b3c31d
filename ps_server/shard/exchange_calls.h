#ifndef SLUICE_PS_SERVER_SHARD_EXCHANGE_CALLS_H_
#define SLUICE_PS_SERVER_SHARD_EXCHANGE_CALLS_H_

#include <grpcpp/alarm.h>
#include <grpcpp/completion_queue.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/byte_buffer.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/clock.h"
#include "common/rpc/completion_tag.h"
#include "common/rpc/stall_watch.h"
#include "common/rpc/stream_service.h"
#include "common/telemetry/shared_counters.h"
#include "common/tls/admission.h"
#include "common/wire/chunk_codec.h"
#include "ps_server/shard/exchange_counters.h"
#include "ps_server/shard/shard.h"
#include "ps_server/shard/shared_links.h"

// The calls of a shard's Exchange service, and what they share.
namespace sluice {

class PullCall;
class PushCall;

// Requests, chunks and replies stay gRPC's raw buffers.
using RawStream =
    grpc::ServerAsyncReaderWriter<grpc::ByteBuffer, grpc::ByteBuffer>;

// Their places in ExchangeContext::service.
inline constexpr int kPullNumber = 0;
inline constexpr int kPushNumber = 1;
inline constexpr int kShareNumber = 2;

// What the calls of one shard share. All but `counters` belongs to the
// exchange thread.
struct ExchangeContext {
  // As ExchangeService's.
  ExchangeContext(Shard* shard, Clock* clock, absl::Duration stall,
                  Admission admission)
      : shard(shard),
        stall(stall),
        admission(std::move(admission)),
        watch(clock, stall) {}

  Shard* const shard;
  const absl::Duration stall;
  Admission admission;
  StreamService service{"/sluice.proto.Exchange/Pull",
                        "/sluice.proto.Exchange/Push",
                        "/sluice.proto.Exchange/Share"};
  // As ExchangeService::Start's; never empty.
  std::function<absl::Status(const GradientKey&, const std::string&)>
      take_ready;
  std::unique_ptr<SharedLinks> links;  // Null: no memory is shared.
  std::unique_ptr<grpc::ServerCompletionQueue> queue;
  SharedCounters<ExchangeCounters> counters;
  // Calls whose request, or first chunk, is to come, and pulls that are sent.
  StallWatch watch;

  // Calls that are streaming a version, and calls that wait for one.
  absl::flat_hash_map<ReadId, PullCall*> reading;
  absl::flat_hash_set<PullCall*> parked;
  absl::flat_hash_set<PushCall*> waiting;  // For room.

  // Calls that exist, also those waiting for a client. When stopping and all
  // are gone, nothing can start another operation and the queue is shut.
  int calls = 0;
  bool stopping = false;

  // How long a call may wait for what it needs before its caller is told to
  // come again: half of limits.transfer_stall_s, since its caller takes it for
  // stalled after that, and what comes then may have a slow link.
  absl::Duration longest_park() const { return stall / 2; }

  void CallGone() {
    --calls;
    ShutQueueIfDone();
  }
  void ShutQueueIfDone() {
    if (stopping && calls == 0) queue->Shutdown();
  }
};

// One Pull: judge the caller, wait for the version if need be, then send its
// chunks from where they lie, all or from where an earlier call broke off; or
// say where they lie to whoever shares memory, and hold them until the caller
// has closed its side. Given up when the caller says or takes nothing for too
// long. Deletes itself.
//
// Not thread-safe: call from the exchange thread.
class PullCall : public QueuedCall, private StallWatch::Watched {
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

  void OnCall(bool ok);
  void OnRequest(bool ok);
  void OnSent(bool ok);
  void OnClosed(bool ok);
  void OnAlarm(bool ok);
  void OnFinished(bool ok) {}
  void OnDone(bool ok);
  void OnStalled(absl::Duration silent) override;

  // Takes over what is asked for; kInvalidArgument says what is wrong with it.
  absl::Status Parse();
  // Serves, parks or refuses.
  void Answer();
  void Park();
  void Unpark();
  void SendNext();
  // Where the next chunks lie, as many as lie where the caller can read them.
  std::vector<SlotState> TakeSlots();
  ParameterRange NextPart() const;
  // What a message carries of one chunk, in floats of the shard's range.
  // REQUIRES: `read_`.
  ChunkData DataOf(ParameterRange part) const;
  void LetGo();
  void Refuse(const absl::Status& status);
  void Finish(const absl::Status& status);
  // Of a caller that has read where it was told, and of a read that was ended.
  void FinishTold();
  void FinishEnded();
  // How long the call may wait for its version.
  absl::Duration ParkTime() const;

  ExchangeContext* const context_;
  grpc::ServerContext call_;
  grpc::ByteBuffer request_;
  RawStream stream_;
  Admission::Place place_;
  Tag<PullCall, &PullCall::OnCall> on_call_{this};
  Tag<PullCall, &PullCall::OnRequest> on_request_{this};
  Tag<PullCall, &PullCall::OnSent> on_sent_{this};
  Tag<PullCall, &PullCall::OnClosed> on_closed_{this};
  Tag<PullCall, &PullCall::OnAlarm> on_alarm_{this};
  Tag<PullCall, &PullCall::OnFinished> on_finished_{this};
  Tag<PullCall, &PullCall::OnDone> on_done_{this};

  Shard::PullQuery query_;
  FloatType type_ = FloatType::kUnspecified;  // Asked for.
  std::optional<grpc::Alarm> alarm_;  // While parked, and until it has rung.
  // While sending. The read is ended, and `ended_` set, if too many are held.
  std::optional<WeightStore::Read> read_;
  ParameterRange rest_;  // What is still to be sent, in the shard's range.
  std::shared_ptr<const SharedLink> link_;  // Of the caller, if it has one.
  bool closed_ = false;                     // The caller's side.
  bool ended_ = false;
  bool sending_ = false;
  bool finished_ = false;
};

// One Push: judge the caller, take chunks until the gradient is staged, one is
// refused or the caller has closed its side; other calls may bring the rest.
// The first chunk may have to wait for room (Shard::Admits). Given up when the
// first one takes too long. Deletes itself.
//
// Not thread-safe: call from the exchange thread.
class PushCall : public QueuedCall, private StallWatch::Watched {
 public:
  // Accepts one call, and listens again when it came.
  static void Listen(ExchangeContext* context);

  // A decision was executed: there may be room now. For calls that wait.
  void Retry() { TakeChunk(); }

 private:
  using Received = ReceivedChunk<PushChunkHeader>;

  explicit PushCall(ExchangeContext* context);
  ~PushCall() override;

  void OnCall(bool ok);
  void OnRead(bool ok);
  void OnAlarm(bool ok);
  void OnFinished(bool ok) {}
  void OnDone(bool ok);
  void OnStalled(absl::Duration silent) override;

  // Begins to read the next chunk into `chunk_`.
  void ReadChunk();
  // Stages `chunk_`, or lets it wait for room.
  void TakeChunk();
  void Park(const GradientKey& key);
  void Unpark();
  // Stages a chunk; whether all of its part of the gradient is staged now.
  absl::StatusOr<bool> Stage(const Received& chunk);
  absl::StatusOr<bool> Stage(const PushChunkHeader& header,
                             const Payload& payload);
  // The same of chunks in memory that the caller shares.
  absl::StatusOr<bool> StageShared(PushChunkHeader header);
  void Accept();
  // Ends the call and says how many floats are here.
  void Reply(int64_t staged);
  void EndEarly();
  void Refuse(const absl::Status& status);
  void Finish(const absl::Status& status);

  ExchangeContext* const context_;
  grpc::ServerContext call_;
  grpc::ByteBuffer chunk_;
  RawStream stream_;
  Admission::Place place_;
  Tag<PushCall, &PushCall::OnCall> on_call_{this};
  Tag<PushCall, &PushCall::OnRead> on_read_{this};
  Tag<PushCall, &PushCall::OnAlarm> on_alarm_{this};
  Tag<PushCall, &PushCall::OnFinished> on_finished_{this};
  Tag<PushCall, &PushCall::OnDone> on_done_{this};

  std::optional<GradientKey> key_;    // Of the first chunk.
  int64_t offset_ = 0;                // Of the last.
  std::optional<grpc::Alarm> alarm_;  // While it waits, and until it has rung.
  bool finished_ = false;
  bool ended_early_ = false;
};

// One Share: judge the caller and tell it where to come. Given up when its
// request takes too long. Deletes itself.
//
// Not thread-safe: call from the exchange thread.
class ShareCall : public QueuedCall, private StallWatch::Watched {
 public:
  // Accepts one call, and listens again when it came.
  static void Listen(ExchangeContext* context);

 private:
  explicit ShareCall(ExchangeContext* context);
  ~ShareCall() override;

  void OnCall(bool ok);
  void OnRequest(bool ok);
  void OnFinished(bool ok) {}
  void OnDone(bool ok) { context_->watch.End(this); }
  void OnStalled(absl::Duration silent) override;

  void Refuse(const absl::Status& status);

  ExchangeContext* const context_;
  grpc::ServerContext call_;
  grpc::ByteBuffer request_;
  RawStream stream_;
  Admission::Place place_;
  Tag<ShareCall, &ShareCall::OnCall> on_call_{this};
  Tag<ShareCall, &ShareCall::OnRequest> on_request_{this};
  Tag<ShareCall, &ShareCall::OnFinished> on_finished_{this};
  Tag<ShareCall, &ShareCall::OnDone> on_done_{this};

  bool finished_ = false;
};

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_EXCHANGE_CALLS_H_

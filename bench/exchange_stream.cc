// Each process has one thread, and one operation under way at a time, for whose
// end it waits. gRPC reads and writes ahead by itself as far as its windows go.
//
//   worker                       shard
//     | chunk, chunk, ... chunk    |  applies each
//     |--------------------------->|
//     |<------- one byte ----------|
//     |-------- one byte --------->|
//     |<-- chunk, chunk, ... ------|
#include "bench/exchange_stream.h"

#include <grpcpp/create_channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "bench/exchange_sluice.h"
#include "common/clock.h"
#include "common/rpc/channel_options.h"
#include "common/tls/transport_security.h"
#include "kernels/optimizer_kernels.h"

namespace sluice::bench {
namespace {

// Waits for the one operation that is under way; whether it went well.
bool Ended(grpc::CompletionQueue* queue) {
  void* tag;
  bool ok = false;
  return queue->Next(&tag, &ok) && ok;
}

// `stream` is the worker's or the shard's; both have the same methods.
template <typename Stream>
void Write(Stream* stream, grpc::CompletionQueue* queue, const void* data,
           int64_t bytes) {
  const grpc::Slice slice(const_cast<void*>(data), bytes,
                          grpc::Slice::STATIC_SLICE);
  stream->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  if (!Ended(queue)) Fail("a stream broke");
}

template <typename Stream>
void WriteChunks(const ExchangePlan& plan, const std::vector<float>& floats,
                 Stream* stream, grpc::CompletionQueue* queue) {
  const auto* const data = reinterpret_cast<const char*>(floats.data());
  const int64_t bytes = floats.size() * sizeof(float);
  for (int64_t at = 0; at < bytes; at += plan.chunk_bytes) {
    Write(stream, queue, data + at, std::min(plan.chunk_bytes, bytes - at));
  }
}

// The next message in one piece, or nothing where the stream has ended.
template <typename Stream>
bool Read(Stream* stream, grpc::CompletionQueue* queue, grpc::Slice* message) {
  grpc::ByteBuffer buffer;
  stream->Read(&buffer, nullptr);
  if (!Ended(queue)) return false;
  return buffer.TrySingleSlice(message).ok() ||
         buffer.DumpToSingleSlice(message).ok();
}

void RunShard(const std::string& certificates, const ExchangePlan& plan,
              const Control& control) {
  const TransportSecurity security = SecurityOf(certificates, TlsRole::kLead);
  grpc::AsyncGenericService service;
  grpc::ServerBuilder builder;
  int port = 0;
  ApplyServerOptions(&builder);
  builder.AddListeningPort("127.0.0.1:0", security.ForServer(), &port);
  builder.RegisterAsyncGenericService(&service);
  const auto queue = builder.AddCompletionQueue();
  const auto server = builder.BuildAndStart();
  if (server == nullptr) Fail("a shard cannot listen");
  control.Send({.kind = Note::Kind::kPort, .number = port});

  std::vector<float> weights(plan.floats, 1.0f);
  const float factor = 1.0f;
  const char word = 0;
  grpc::GenericServerContext context;
  grpc::GenericServerAsyncReaderWriter stream(&context);
  service.RequestCall(&context, &stream, queue.get(), queue.get(), nullptr);
  if (!Ended(queue.get())) Fail("no worker came");
  grpc::Slice message;
  for (bool here = true; here;) {
    int64_t received = 0;
    while (received < plan.floats &&
           (here = Read(&stream, queue.get(), &message))) {
      const auto* const gradient =
          reinterpret_cast<const float*>(message.begin());
      const int64_t floats = message.size() / sizeof(float);
      kernels::SgdUpdate({.learning_rate = kRate},
                         {{&gradient, 1}, {&factor, 1}}, floats,
                         &weights[received], nullptr, &weights[received]);
      received += floats;
    }
    if (!here) break;
    Write(&stream, queue.get(), &word, 1);
    here = Read(&stream, queue.get(), &message);
    if (here) WriteChunks(plan, weights, &stream, queue.get());
  }
  stream.Finish(grpc::Status::OK, nullptr);
  Ended(queue.get());
  server->Shutdown(std::chrono::system_clock::time_point());
  queue->Shutdown();
  while (Ended(queue.get())) {
  }
}

void RunWorker(const std::string& certificates, const ExchangePlan& plan,
               int index, const Control& control) {
  const TransportSecurity security = SecurityOf(certificates, TlsRole::kWorker);
  std::vector<float> gradient(plan.floats), weights(plan.floats);
  for (int64_t i = 0; i < plan.floats; ++i) gradient[i] = GradientAt(index, i);
  const std::string address =
      absl::StrCat("127.0.0.1:", control.Receive().number);
  grpc::GenericStub stub(grpc::CreateCustomChannel(
      address, security.ToLead(),
      BulkChannelArguments(WindowTo(address, security.tls()))));
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  const auto stream = stub.PrepareCall(&context, "/bench/Exchange", &queue);
  stream->StartCall(nullptr);
  if (!Ended(&queue)) Fail("a worker cannot connect");
  const auto now = [] { return Clock::Real()->Now(); };
  const char word = 0;
  grpc::Slice message;
  control.Send({.kind = Note::Kind::kReady});
  while (true) {
    const Note go = control.Receive();
    if (go.kind == Note::Kind::kStop) break;
    const absl::Time start = now();
    WriteChunks(plan, gradient, stream.get(), &queue);
    if (!Read(stream.get(), &queue, &message)) Fail("the shard is gone");
    const absl::Time pushed = now();
    Write(stream.get(), &queue, &word, 1);
    auto* const to = reinterpret_cast<char*>(weights.data());
    const int64_t bytes = plan.floats * sizeof(float);
    for (int64_t received = 0; received < bytes; received += message.size()) {
      if (!Read(stream.get(), &queue, &message)) Fail("the shard is gone");
      std::memcpy(to + received, message.begin(), message.size());
    }
    const absl::Time end = now();
    if (go.verify) Verify(plan, go.number, weights);
    control.Send({.kind = Note::Kind::kDone,
                  .push_seconds = absl::ToDoubleSeconds(pushed - start),
                  .pull_seconds = absl::ToDoubleSeconds(end - pushed),
                  .seconds = absl::ToDoubleSeconds(end - start)});
  }
  context.TryCancel();
  grpc::Status status;
  stream->Finish(&status, nullptr);
  Ended(&queue);
  queue.Shutdown();
  while (Ended(&queue)) {
  }
}

}  // namespace

Bodies StreamSide(const std::string& certificates) {
  return {
      [certificates](const ExchangePlan& plan, int, const Control& control) {
        RunShard(certificates, plan, control);
      },
      [certificates](const ExchangePlan& plan, int index,
                     const Control& control) {
        RunWorker(certificates, plan, index, control);
      }};
}

}  // namespace sluice::bench

#ifndef SLUICE_PS_SERVER_SHARD_LOOPBACK_TESTING_H_
#define SLUICE_PS_SERVER_SHARD_LOOPBACK_TESTING_H_

#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>

#include <chrono>
#include <cstring>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/rpc/channel_options.h"
#include "common/rpc/status_conversion.h"
#include "gtest/gtest.h"
#include "proto/exchange.grpc.pb.h"
#include "ps_server/shard/exchange_service.h"
#include "ps_server/shard/shard_testing.h"

// A shard behind real gRPC on a free port, and clients of generated code.
namespace sluice::testing {

// Nothing here takes longer than milliseconds, but for a loaded machine.
inline constexpr absl::Duration kPatience = absl::Seconds(20);

inline std::chrono::system_clock::time_point After(absl::Duration time) {
  return absl::ToChronoTime(Clock::Real()->Now() + time);
}

// One shard, which has executed FirstRestore().
//
// Not thread-safe: call from the thread of the test.
class Loopback {
 public:
  explicit Loopback(ShardOptions options)
      : shard_(std::move(options)), exchange_(&shard_, Clock::Real()) {
    grpc::ServerBuilder builder;
    int port = 0;
    ApplyServerOptions(&builder);
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(),
                             &port);
    exchange_.Register(&builder);
    server_ = builder.BuildAndStart();
    EXPECT_NE(server_, nullptr);
    address_ = absl::StrCat("127.0.0.1:", port);
    exchange_.Start();
    EXPECT_TRUE(Execute(FirstRestore()).ok());
  }
  ~Loopback() { Stop(); }

  void Stop() {
    server_->Shutdown(After(absl::ZeroDuration()));
    exchange_.Shutdown();
  }

  std::shared_ptr<grpc::Channel> Connect() {
    grpc::ChannelArguments arguments = BulkChannelArguments();
    arguments.SetMaxSendMessageSize(-1);  // So that the server must refuse.
    return grpc::CreateCustomChannel(
        address_, grpc::InsecureChannelCredentials(), arguments);
  }
  std::unique_ptr<proto::Exchange::Stub> Client() {
    return proto::Exchange::NewStub(Connect());
  }

  // Executes the next decision; blocks until it is done.
  template <typename What>
  absl::Status Execute(What what) {
    std::promise<absl::Status> done;
    exchange_.Execute({++number_, std::move(what)},
                      [&done](absl::Status status, int64_t, Version) {
                        done.set_value(std::move(status));
                      });
    return done.get_future().get();
  }

  // Lets the exchange thread find all of `decisions` at once, and calls `after`
  // on it after each; blocks until they are done.
  void ExecuteTogether(std::vector<AnyDecision> decisions,
                       const std::function<void()>& after) {
    std::promise<void> all_there, done;
    exchange_.Execute({++number_, Discard{Key(1000 + number_)}},
                      [&](const absl::Status&, int64_t, Version) {
                        all_there.get_future().wait();
                      });
    const int64_t last = number_ + static_cast<int64_t>(decisions.size());
    for (AnyDecision& decision : decisions) {
      exchange_.Execute(
          {++number_, std::move(decision)},
          [&, last](const absl::Status& status, int64_t executed, Version) {
            EXPECT_TRUE(status.ok()) << status;
            after();
            if (executed == last) done.set_value();
          });
    }
    all_there.set_value();
    done.get_future().wait();
  }

  // Waits until a counter reaches `value`.
  void Await(int64_t ExchangeCounters::*counter, int64_t value) {
    const absl::Time deadline = Clock::Real()->Now() + kPatience;
    while (exchange_.counters().*counter < value) {
      ASSERT_LT(Clock::Real()->Now(), deadline)
          << "counter is " << exchange_.counters().*counter;
      std::this_thread::yield();
    }
  }
  ExchangeCounters counters() const { return exchange_.counters(); }

 private:
  Shard shard_;
  ExchangeService exchange_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  int64_t number_ = 0;
};

inline proto::PushChunk ChunkOf(const GradientKey& key, int64_t offset,
                                const std::vector<float>& floats) {
  proto::PushChunk chunk;
  chunk.mutable_key()->set_generation(key.generation.value());
  chunk.mutable_key()->set_worker(key.worker.value());
  chunk.mutable_key()->set_incarnation(key.incarnation.value());
  chunk.mutable_key()->set_sequence(key.sequence.value());
  chunk.set_grant(GrantFor(kSecret, key));
  chunk.set_offset(offset);
  chunk.set_checksum(ChunkChecksum(floats));
  chunk.set_type(proto::FP32);
  chunk.set_data(floats.data(), floats.size() * sizeof(float));
  return chunk;
}

// A whole gradient of `value`, cut as the grid says.
inline std::vector<proto::PushChunk> Gradient(const GradientKey& key,
                                              const ChunkGrid& grid,
                                              float value) {
  std::vector<proto::PushChunk> chunks;
  for (int i = 0; i < grid.count(); ++i) {
    chunks.push_back(
        ChunkOf(key, grid.begin(i), std::vector<float>(grid.size(i), value)));
  }
  return chunks;
}

inline absl::Status Push(proto::Exchange::Stub* client,
                         const std::vector<proto::PushChunk>& chunks) {
  grpc::ClientContext context;
  context.set_deadline(After(kPatience));
  proto::PushReply reply;
  const auto writer = client->Push(&context, &reply);
  for (const proto::PushChunk& chunk : chunks) {
    if (!writer->Write(chunk)) break;  // Finish says why.
  }
  writer->WritesDone();
  return FromGrpcStatus(writer->Finish());
}

struct Pulled {
  absl::Status status;
  int64_t version = -1;
  std::vector<float> weights;
};

inline Pulled Pull(proto::Exchange::Stub* client, int64_t version, bool exact,
                   absl::Duration deadline = kPatience,
                   int64_t generation = 1) {
  grpc::ClientContext context;
  context.set_deadline(After(deadline));
  proto::PullRequest request;
  request.set_generation(generation);
  request.set_version(version);
  request.set_exact(exact);
  request.set_type(proto::FP32);
  const auto reader = client->Pull(&context, request);
  Pulled pulled;
  proto::PullChunk chunk;
  while (reader->Read(&chunk)) {
    EXPECT_EQ(chunk.offset(), static_cast<int64_t>(pulled.weights.size()));
    EXPECT_TRUE(pulled.version < 0 || pulled.version == chunk.version());
    pulled.version = chunk.version();
    std::vector<float> floats(chunk.data().size() / sizeof(float));
    std::memcpy(floats.data(), chunk.data().data(), chunk.data().size());
    EXPECT_EQ(chunk.checksum(), ChunkChecksum(floats));
    pulled.weights.insert(pulled.weights.end(), floats.begin(), floats.end());
  }
  pulled.status = FromGrpcStatus(reader->Finish());
  return pulled;
}

}  // namespace sluice::testing

#endif  // SLUICE_PS_SERVER_SHARD_LOOPBACK_TESTING_H_

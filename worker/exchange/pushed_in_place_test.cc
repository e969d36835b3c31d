// A gradient is sent from where it lies, and its memory takes the next one.
#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "common/parameter_layout.h"
#include "common/wire/payload.h"
#include "gtest/gtest.h"
#include "worker/exchange/fake_shard.h"
#include "worker/exchange/floats_on_the_way.h"
#include "worker/exchange/grpc_exchange.h"

namespace sluice {
namespace {

// Of 1 MiB: more than HTTP/2 lets on the way before it is asked for.
constexpr int64_t kFloats = 1 << 18;
constexpr absl::Duration kLong = absl::Seconds(30);

ParameterLayout OneShard() {
  TensorSpec tensor;
  tensor.name = "dense0.weight";
  tensor.shape = {kFloats};
  tensor.size = kFloats;
  return ParameterLayout({tensor}, /*shards=*/1);
}

bool ChecksumIsRight(const proto::PushChunk& chunk) {
  return chunk.checksum() ==
         ChunkChecksum({reinterpret_cast<const uint8_t*>(chunk.data().data()),
                        chunk.data().size()});
}

TEST(PushedInPlaceTest, WhatIsOverwrittenOnTheWayHasAWrongChecksum) {
  std::vector<float> gradient(kFloats, 1);
  const ParameterLayout layout = OneShard();
  FakeShard shard(std::vector<float>(kFloats), /*version=*/1, kFloats);
  GrpcExchange::Options options;
  options.chunk_bytes = kFloats * sizeof(float);
  options.limits = {.stall = kLong, .partition = kLong};
  GrpcExchange exchange(&layout, {shard.address()}, options);
  std::atomic<bool> right = true;
  shard.set_behaviour({.on_push = [&] { gradient.back() = 2; },
                       .on_push_chunk =
                           [&](const proto::PushChunk& chunk) {
                             right = ChecksumIsRight(chunk);
                             return grpc::Status(grpc::INVALID_ARGUMENT, "");
                           }});
  exchange.BeginPush({Generation(1), WorkerId(3), Incarnation(2), Sequence(1)},
                     /*grant=*/"a grant", gradient);
  exchange.PushFrom(0);
  EXPECT_TRUE(absl::IsInvalidArgument(exchange.FinishPush(CancelToken())));
  EXPECT_FALSE(right);
}

TEST(FloatsOnTheWayTest, ItStaysUntilNothingIsReadAnyMore) {
  std::atomic<int> ended = 0;
  auto way = std::make_unique<FloatsOnTheWay>("a shard");
  const auto first = way->Begin(), second = way->Begin();
  std::thread reader([&] {
    ++ended;
    first();
    std::this_thread::yield();
    ++ended;
    second();
  });
  way.reset();
  EXPECT_EQ(ended, 2);
  reader.join();
}

}  // namespace
}  // namespace sluice

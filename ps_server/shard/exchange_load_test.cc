#include <future>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "proto/exchange.grpc.pb.h"
#include "ps_server/shard/loopback_testing.h"
#include "ps_server/shard/shard_testing.h"

namespace sluice {
namespace {

using ::sluice::testing::After;
using ::sluice::testing::Gradient;
using ::sluice::testing::Key;
using ::sluice::testing::kPatience;
using ::sluice::testing::Loopback;
using ::sluice::testing::Pull;
using ::sluice::testing::Pulled;
using ::sluice::testing::PullOf;
using ::sluice::testing::Push;

// A shard of 16 MiB in chunks of 1 MiB: more than a connection buffers.
ShardOptions LargeOptions() {
  ShardOptions options = testing::SmallOptions();
  options.layout =
      ParameterLayout({testing::Constant("w", 4 << 20, 0, true)}, 1);
  options.initial_weights = testing::InitializersOf(options.layout);
  options.chunk_bytes = 1 << 20;
  return options;
}

TEST(ExchangeLoadTest, ReadersWhileUpdatesGoOnNeverSeeAMixture) {
  constexpr int kUpdates = 12;
  Loopback loopback(LargeOptions());
  const ChunkGrid grid(4 << 20, 1 << 18);
  // The gradient of -1 adds 1 to every weight: version v is v everywhere.
  const auto read = [&loopback] {
    const auto client = loopback.Client();
    for (int64_t version = 0; version < kUpdates;) {
      const Pulled pulled = Pull(client.get(), version + 1, false);
      if (pulled.status.code() == absl::StatusCode::kResourceExhausted) {
        continue;  // Held too long: repeat.
      }
      ASSERT_TRUE(pulled.status.ok()) << pulled.status;
      version = pulled.version;
      ASSERT_EQ(pulled.weights,
                std::vector<float>(4 << 20, static_cast<float>(version)));
    }
  };
  auto first = std::async(std::launch::async, read);
  auto second = std::async(std::launch::async, read);
  const auto client = loopback.Client();
  for (int64_t version = 1; version <= kUpdates; ++version) {
    const GradientKey key = Key(version);
    ASSERT_TRUE(Push(client.get(), Gradient(key, grid, -1)).ok());
    ASSERT_TRUE(loopback.Execute(Commit{Version(version), 1, {{key, 1}}}).ok());
  }
  first.get();
  second.get();
}

TEST(ExchangeLoadTest, AReaderThatDoesNotReadIsEndedPastMaxHeld) {
  ShardOptions options = LargeOptions();
  options.max_held = 1;
  Loopback loopback(std::move(options));
  const ChunkGrid grid(4 << 20, 1 << 18);
  const auto stalled = loopback.Client();
  grpc::ClientContext context;
  context.set_deadline(After(kPatience));
  proto::PullRequest request;
  request.set_generation(1);
  request.set_exact(true);
  request.set_type(proto::FP32);
  const auto reader = stalled->Pull(&context, request);
  proto::PullChunk chunk;
  ASSERT_TRUE(reader->Read(&chunk));
  const auto client = loopback.Client();
  // Version 0 becomes an old one; so does version 1, which is pinned.
  for (int64_t version = 1; version <= 2; ++version) {
    ASSERT_TRUE(Push(client.get(), Gradient(Key(version), grid, -1)).ok());
    ASSERT_TRUE(loopback
                    .Execute(Commit{Version(version),
                                    1,
                                    {{Key(version), 1}},
                                    /*pin=*/version == 1})
                    .ok());
  }
  loopback.Await(&ExchangeCounters::pulls_ended, 1);
  while (reader->Read(&chunk)) {
    EXPECT_EQ(chunk.version(), 0);
    EXPECT_EQ(chunk.data().substr(0, 4), std::string(4, '\0'));
  }
  EXPECT_EQ(reader->Finish().error_code(),
            grpc::StatusCode::RESOURCE_EXHAUSTED);
}

TEST(ExchangeLoadTest, AReaderThatTakesNothingIsGivenUpAndHoldsNoVersion) {
  Loopback loopback(LargeOptions(), /*stall=*/absl::Milliseconds(200));
  const auto stalled = loopback.Client();
  grpc::ClientContext context;
  context.set_deadline(After(kPatience));
  const auto reader = stalled->Pull(&context, PullOf(0, /*exact=*/true));
  proto::PullChunk chunk;
  ASSERT_TRUE(reader->Read(&chunk));
  loopback.Await(&ExchangeCounters::pulls_stalled, 1);
  while (reader->Read(&chunk)) {
  }
  EXPECT_EQ(reader->Finish().error_code(), grpc::StatusCode::CANCELLED);
  EXPECT_EQ(loopback.counters().pulls_served, 0);
  // Who reads is served, however long it takes in all.
  EXPECT_TRUE(Pull(loopback.Client().get(), 0, true).status.ok());
  EXPECT_EQ(loopback.counters().pulls_stalled, 1);
}

}  // namespace
}  // namespace sluice

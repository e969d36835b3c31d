// The worker's exchange against real shards, over real gRPC, with chunks that
// are sent and with memory that both share.

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/clock.h"
#include "common/exchange_error.h"
#include "common/grant.h"
#include "common/process/shared_memory.h"
#include "common/wire/wire_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "ps_server/shard/shard.h"
#include "ps_server/shard/shared_chunks.h"
#include "tests/loopback/served_shard.h"
#include "worker/exchange/grpc_exchange.h"
#include "worker/task/cancel_token.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kSecret = ServedShard::kSecret;
constexpr int64_t kFloats = 3000;
constexpr int64_t kChunkBytes = 1024;

// Far longer than any test takes. A wait of this length is a failure.
constexpr absl::Duration kLong = absl::Seconds(30);

// Every weight starts at 2.
ParameterLayout Layout() {
  TensorSpec tensor;
  tensor.name = "dense0.weight";
  tensor.shape = {kFloats};
  tensor.size = kFloats;
  tensor.initializer.value = 2;
  return ParameterLayout({tensor}, /*shards=*/2);
}

ShardOptions OptionsOf(int64_t id) {
  const auto initial_weights = [](ParameterRange range) {
    return Layout().InitialWeights(1, range);
  };
  ShardOptions options{
      ShardId(id), initial_weights, Layout(), {}, kChunkBytes, 2, 4};
  options.optimizer.mutable_sgd();
  return options;
}

std::shared_ptr<SharedChunks> NewChunks() {
  auto chunks = SharedChunks::Create(kChunkBytes / sizeof(float), /*slots=*/48);
  EXPECT_TRUE(chunks.ok()) << chunks.status();
  return *chunks;
}

SharedMemory NewGradient() {
  auto memory = SharedMemory::Create("gradient", kFloats * sizeof(float),
                                     SharedMemory::Others::kRead);
  EXPECT_TRUE(memory.ok()) << memory.status();
  return *std::move(memory);
}

// How chunks travel: on one call or on several, or in memory that is shared.
enum class Way { kCall, kCalls, kShared };

class ExchangeLoopbackTest : public ::testing::TestWithParam<Way> {
 protected:
  ExchangeLoopbackTest() {
    if (shared()) exchange_.ShareMemory({&memory_});
  }

  static bool shared() { return GetParam() == Way::kShared; }
  static ShardOptions ShardOf(int64_t id) {
    ShardOptions options = OptionsOf(id);
    if (shared()) options.shared_weights = NewChunks();
    return options;
  }
  static GradientKey Key(int64_t sequence) {
    return {Generation(1), WorkerId(0), Incarnation(1), Sequence(sequence)};
  }
  GrpcExchange::Options Options() {
    GrpcExchange::Options options;
    options.chunk_bytes = kChunkBytes;
    if (GetParam() == Way::kCalls) options.window = Window::kRoundTrip;
    return options;
  }
  absl::StatusOr<std::vector<Version>> Pull(int64_t version) {
    const PullSpec spec = {.generation = Generation(1),
                           .version = Version(version),
                           .exact = true,
                           .deadline = Clock::Real()->Now() + kLong};
    return exchange_.Pull(spec, absl::MakeSpan(weights_), token_);
  }
  absl::Status Push(int64_t sequence, const std::vector<float>& gradient) {
    exchange_.BeginPush(Key(sequence),
                        GrantKey(kSecret).GrantFor(Key(sequence)),
                        InMemory(gradient));
    // Like backward: from the end, in steps that do not match chunks.
    for (int64_t from = kFloats; from > 0; from -= 700) {
      exchange_.PushFrom(from);
    }
    exchange_.PushFrom(0);
    return exchange_.FinishPush(token_);
  }
  // In memory that is shared, if any is.
  absl::Span<const float> InMemory(const std::vector<float>& gradient) {
    std::copy(gradient.begin(), gradient.end(), memory_.As<float>().begin());
    return memory_.As<const float>();
  }
  int64_t shared_bytes() const {
    return shard0_.counters().shared_bytes + shard1_.counters().shared_bytes;
  }
  void Commit1(int64_t version, int64_t sequence) {
    for (ServedShard* shard : {&shard0_, &shard1_}) {
      shard->Execute(Commit{Version(version), 0.5, {{Key(sequence), 1}}});
    }
  }

  const ParameterLayout layout_ = Layout();
  ServedShard shard0_{ShardOf(0)};
  ServedShard shard1_{ShardOf(1)};
  const SharedMemory memory_ = NewGradient();
  CancelToken token_;
  std::vector<float> weights_ = std::vector<float>(kFloats);
  GrpcExchange exchange_{
      &layout_, {shard0_.address(), shard1_.address()}, Options()};
};

TEST_P(ExchangeLoopbackTest, WhatIsPushedAndCommittedIsPulled) {
  ASSERT_TRUE(Pull(0).ok());
  EXPECT_THAT(weights_, Each(2.0f));
  std::vector<float> gradient(kFloats);
  for (int64_t i = 0; i < kFloats; ++i) gradient[i] = static_cast<float>(i);
  ASSERT_TRUE(Push(1, gradient).ok());
  Commit1(/*version=*/1, /*sequence=*/1);
  const auto versions = Pull(1);
  ASSERT_TRUE(versions.ok()) << versions.status();
  EXPECT_THAT(*versions, ElementsAre(Version(1), Version(1)));
  for (int64_t i = 0; i < kFloats; ++i) {
    ASSERT_EQ(weights_[i], 2 - 0.5f * gradient[i]) << i;
  }
  // Two pulls and a push.
  EXPECT_EQ(shared_bytes(), shared() ? 3 * kFloats * 4 : 0);
}

TEST_P(ExchangeLoopbackTest, AGradientThatLiesElsewhereIsSent) {
  const std::vector<float> gradient(kFloats, 2);
  exchange_.BeginPush(Key(1), GrantKey(kSecret).GrantFor(Key(1)), gradient);
  exchange_.PushFrom(0);
  ASSERT_TRUE(exchange_.FinishPush(token_).ok());
  EXPECT_EQ(shared_bytes(), 0);
  Commit1(/*version=*/1, /*sequence=*/1);
  ASSERT_TRUE(Pull(1).ok());
  EXPECT_THAT(weights_, Each(1.0f));
}

// More versions than there are slots for, each pulled while the next is made.
TEST_P(ExchangeLoopbackTest, VersionsFollowEachOther) {
  for (int64_t version = 1; version <= 20; ++version) {
    ASSERT_TRUE(Push(version, std::vector<float>(kFloats, 2)).ok());
    Commit1(version, version);
    const auto versions = Pull(version);
    ASSERT_TRUE(versions.ok()) << versions.status();
    ASSERT_THAT(weights_, Each(2.0f - static_cast<float>(version)));
  }
  EXPECT_EQ(shared_bytes(), shared() ? 40 * kFloats * 4 : 0);
}

// What a pull was told of is held until it has been read: the update that is
// made meanwhile goes elsewhere.
TEST_P(ExchangeLoopbackTest, APullIsOfOneVersionWhileOthersAreMade) {
  for (int64_t version = 1; version <= 50; ++version) {
    ASSERT_TRUE(Push(version, std::vector<float>(kFloats, 2)).ok());
    exchange_.BeginPull({.generation = Generation(1),
                         .version = Version(version - 1),
                         .exact = false,
                         .deadline = Clock::Real()->Now() + kLong},
                        absl::MakeSpan(weights_));
    Commit1(version, version);
    const auto versions = exchange_.FinishPull(token_);
    ASSERT_TRUE(versions.ok()) << versions.status();
    for (const int shard : {0, 1}) {
      const ParameterRange range = layout_.range(ShardId(shard));
      const float expected = 2.0f - (*versions)[shard].value();
      for (int64_t i = range.begin; i < range.end; ++i) {
        ASSERT_EQ(weights_[i], expected) << i;
      }
    }
  }
}

TEST_P(ExchangeLoopbackTest, APullWaitsForAVersionThatIsDecidedLater) {
  ASSERT_TRUE(Push(1, std::vector<float>(kFloats, 2)).ok());
  std::thread committer([this] { Commit1(/*version=*/1, /*sequence=*/1); });
  EXPECT_TRUE(Pull(1).ok());
  committer.join();
  EXPECT_THAT(weights_, Each(1.0f));
}

TEST_P(ExchangeLoopbackTest, APrefetchThatWasAbortedWritesNothing) {
  std::vector<float> ahead(kFloats, -1);
  exchange_.Prefetch({.generation = Generation(1),
                      .version = Version(1),
                      .exact = true,
                      .deadline = Clock::Real()->Now() + kLong},
                     absl::MakeSpan(ahead));
  exchange_.AbortPrefetch();
  ASSERT_TRUE(Push(1, std::vector<float>(kFloats, 2)).ok());
  Commit1(/*version=*/1, /*sequence=*/1);
  // Otherwise the first request would be answered first.
  ASSERT_TRUE(Pull(1).ok());
  EXPECT_THAT(weights_, Each(1.0f));
  EXPECT_THAT(ahead, Each(-1.0f));
}

TEST_P(ExchangeLoopbackTest, AVersionThatIsGoneAborts) {
  ASSERT_TRUE(Push(1, std::vector<float>(kFloats)).ok());
  Commit1(/*version=*/1, /*sequence=*/1);
  const absl::Status status = Pull(0).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReasonOf(status), proto::ExchangeError::VERSION_GONE);
}

TEST_P(ExchangeLoopbackTest, ARepeatedPushIsStagedOnce) {
  const std::vector<float> gradient(kFloats, 2);
  ASSERT_TRUE(Push(1, gradient).ok());
  ASSERT_TRUE(Push(1, gradient).ok());
  Commit1(/*version=*/1, /*sequence=*/1);
  ASSERT_TRUE(Pull(1).ok());
  EXPECT_THAT(weights_, Each(1.0f));
}

TEST_P(ExchangeLoopbackTest, AGradientWithNanIsRefusedByTensorAndPosition) {
  std::vector<float> gradient(kFloats);
  gradient[2900] = std::numeric_limits<float>::quiet_NaN();
  const absl::Status status = Push(1, gradient);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("shard 1 at "), HasSubstr("dense0.weight"),
                    HasSubstr("2900")));
}

TEST_P(ExchangeLoopbackTest, ADiscardedGradientIsRefused) {
  for (ServedShard* shard : {&shard0_, &shard1_}) {
    shard->Execute(Discard{{Key(1)}});
  }
  EXPECT_EQ(Push(1, std::vector<float>(kFloats)).code(),
            absl::StatusCode::kAborted);
}

TEST_P(ExchangeLoopbackTest, AnAbortedPushLeavesRoomForTheNext) {
  const std::vector<float> gradient(kFloats, 2);
  exchange_.BeginPush(Key(1), GrantKey(kSecret).GrantFor(Key(1)),
                      InMemory(gradient));
  exchange_.PushFrom(2000);
  exchange_.AbortPush();
  for (ServedShard* shard : {&shard0_, &shard1_}) {
    shard->Execute(Discard{{Key(1)}});
  }
  ASSERT_TRUE(Push(2, gradient).ok());
  Commit1(/*version=*/1, /*sequence=*/2);
  ASSERT_TRUE(Pull(1).ok());
  EXPECT_THAT(weights_, Each(1.0f));
}

std::string NameOfWay(const ::testing::TestParamInfo<Way>& info) {
  if (info.param == Way::kShared) return "Shared";
  return info.param == Way::kCall ? "Call" : "Calls";
}
INSTANTIATE_TEST_SUITE_P(Ways, ExchangeLoopbackTest,
                         ::testing::Values(Way::kCall, Way::kCalls,
                                           Way::kShared),
                         NameOfWay);

// A slice that whoever waits receives, from memory that is shared: its call has
// something left to do when the floats are there.
TEST(WaitedForExchangeTest, ItEndsBehindAPullWhoseCallIsNotOver) {
  constexpr int64_t kWaited = 128 << 10;
  constexpr int64_t kWaitedFloats = kWaited / sizeof(float);
  TensorSpec tensor;
  tensor.name = "dense0.weight";
  tensor.shape = {tensor.size = kWaitedFloats};
  tensor.initializer.value = 2;
  const ParameterLayout layout({tensor}, /*shards=*/1);
  ShardOptions options{
      ShardId(0),
      [&](ParameterRange range) { return layout.InitialWeights(1, range); },
      layout,
      {},
      kWaited,
      2,
      4};
  options.optimizer.mutable_sgd();
  options.shared_weights = *SharedChunks::Create(kWaitedFloats, /*slots=*/4);
  ServedShard shard(std::move(options));
  GrpcExchange exchange(&layout, {shard.address()}, {.chunk_bytes = kWaited});
  exchange.ShareMemory({});
  std::vector<float> weights(kWaitedFloats);
  for (int i = 0; i < 2; ++i) {
    const PullSpec spec = {.generation = Generation(1),
                           .version = Version(0),
                           .exact = true,
                           .deadline = Clock::Real()->Now() + kLong};
    ASSERT_TRUE(
        exchange.Pull(spec, absl::MakeSpan(weights), CancelToken()).ok());
    EXPECT_THAT(weights, Each(2.0f));
  }
  EXPECT_EQ(shard.counters().shared_bytes, 2 * kWaited);
}

// Weights that start at 2, with a running statistic between them that lies on
// both shards.
ParameterLayout LayoutWithStatistic() {
  std::vector<TensorSpec> tensors(3);
  for (TensorSpec& tensor : tensors) {
    tensor.name = absl::StrCat("t", &tensor - tensors.data());
    tensor.shape = {tensor.size = 1000};
    tensor.initializer.value = 2;
  }
  tensors[1].moving_average = 0.25;
  return ParameterLayout(tensors, /*shards=*/2);
}

class WireTypesTest : public ::testing::TestWithParam<FloatType> {
 protected:
  using Pulled = std::vector<float>;

  ShardOptions TypedOptions(int64_t id) {
    ShardOptions options = OptionsOf(id);
    options.layout = layout_;
    options.initial_weights = [this](ParameterRange range) {
      return layout_.InitialWeights(1, range);
    };
    options.push_type = GetParam();
    return options;
  }
  GrpcExchange Connect(WireTypes types) {
    return GrpcExchange(&layout_, {shard0_.address(), shard1_.address()},
                        {.chunk_bytes = kChunkBytes, .types = types});
  }
  Pulled Pull(GrpcExchange* exchange) {
    Pulled weights(kFloats);
    const auto versions =
        exchange->Pull({.generation = Generation(1),
                        .version = Version(1),
                        .exact = true,
                        .deadline = Clock::Real()->Now() + kLong},
                       absl::MakeSpan(weights), CancelToken());
    EXPECT_TRUE(versions.ok()) << versions.status();
    return weights;
  }

  const ParameterLayout layout_ = LayoutWithStatistic();
  const WireFormat format_{layout_.statistics()};
  ServedShard shard0_{TypedOptions(0)};
  ServedShard shard1_{TypedOptions(1)};
};

TEST_P(WireTypesTest, FloatsArriveAsTheirTypeRoundsThemAndStatisticsUnchanged) {
  GrpcExchange typed = Connect({GetParam(), GetParam()});
  const GradientKey key = {Generation(1), WorkerId(0), Incarnation(1),
                           Sequence(1)};
  Pulled gradient(kFloats);
  for (int64_t i = 0; i < kFloats; ++i) gradient[i] = i / 3.0f;
  typed.BeginPush(key, GrantKey(kSecret).GrantFor(key), gradient);
  typed.PushFrom(0);
  const absl::Status pushed = typed.FinishPush(CancelToken());
  ASSERT_TRUE(pushed.ok()) << pushed;
  for (ServedShard* shard : {&shard0_, &shard1_}) {
    shard->Execute(Commit{Version(1), 0.5, {{key, 1}}});
  }
  // The weights that the shards hold now.
  GrpcExchange exact = Connect({});
  Pulled held = Pull(&exact);
  format_.Travel(GetParam(), {0, kFloats}, absl::MakeSpan(gradient));
  for (int64_t i = 0; i < kFloats; ++i) {
    const bool statistic = i >= 1000 && i < 2000;
    ASSERT_EQ(held[i], statistic ? 2 + 0.25f * (i / 3.0f - 2)
                                 : std::fma(-0.5f, gradient[i], 2.0f))
        << i;
  }
  // The same weights as a worker receives them.
  format_.Travel(GetParam(), {0, kFloats}, absl::MakeSpan(held));
  EXPECT_EQ(Pull(&typed), held);
}

TEST_P(WireTypesTest, AnotherTypeThanTheShardsIsRefused) {
  const bool is_fp32 = GetParam() == FloatType::kFp32;
  const FloatType other = is_fp32 ? FloatType::kBf16 : FloatType::kFp32;
  GrpcExchange exchange = Connect({other, other});
  const GradientKey key = {Generation(1), WorkerId(0), Incarnation(1),
                           Sequence(1)};
  const Pulled gradient(kFloats);
  exchange.BeginPush(key, GrantKey(kSecret).GrantFor(key), gradient);
  exchange.PushFrom(0);
  const absl::Status status = exchange.FinishPush(CancelToken());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr(absl::StrCat(" is ", NameOf(other), ", expected ",
                                     NameOf(GetParam()))));
}

INSTANTIATE_TEST_SUITE_P(Types, WireTypesTest,
                         ::testing::Values(FloatType::kFp32, FloatType::kBf16,
                                           FloatType::kFp16),
                         [](const auto& info) {
                           return std::string(NameOf(info.param));
                         });

}  // namespace
}  // namespace sluice

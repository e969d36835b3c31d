#include "worker/exchange/grpc_exchange.h"

#include <atomic>
#include <future>
#include <memory>
#include <numeric>
#include <thread>

#include "absl/synchronization/notification.h"
#include "common/exchange_error.h"
#include "common/rpc/status_conversion.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/exchange/completion_loop.h"
#include "worker/exchange/fake_shard.h"

namespace sluice {
namespace {

const grpc::Status kNotYet = ToGrpcStatus(WithReason(
    proto::ExchangeError::NOT_YET, absl::UnavailableError("version 7")));

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kFloats = 480, kRange = kFloats / 2;
constexpr int64_t kChunkFloats = 64, kVersion = 7;

// Far longer than any test takes: a wait that lasts so long is a failure.
constexpr absl::Duration kLong = absl::Seconds(30);

ParameterLayout TwoShards() {
  TensorSpec tensor;
  tensor.name = "dense0.weight";
  tensor.shape = {kFloats};
  tensor.size = kFloats;
  return ParameterLayout({tensor}, /*shards=*/2);
}

std::vector<float> Ramp(int64_t begin, int64_t end) {
  std::vector<float> ramp(end - begin);
  std::iota(ramp.begin(), ramp.end(), static_cast<float>(begin));
  return ramp;
}

// The machine's clock, which a test can put forward.
class ForwardClock final : public Clock {
 public:
  absl::Time Now() override {
    return Clock::Real()->Now() + absl::Seconds(forward_s_.load());
  }
  void Advance(absl::Duration by) { forward_s_ += absl::ToInt64Seconds(by); }

 private:
  std::atomic<int64_t> forward_s_ = 0;
};

// Counts the pulls; the third has its version.
FakeShard::Behaviour NotYetTwice(std::atomic<int>* calls) {
  return {.on_pull = [calls](const proto::PullRequest&) {
    return ++*calls < 3 ? kNotYet : grpc::Status::OK;
  }};
}

// Two fake shards that hold 0, 1, 2, ... at version 7, and an exchange.
class ExchangeFixture : public ::testing::Test {
 protected:
  explicit ExchangeFixture(int64_t chunk_floats)
      : chunk_floats_(chunk_floats) {}

  GrpcExchange::Options Options() {
    GrpcExchange::Options options;
    options.chunk_bytes = chunk_floats_ * sizeof(float);
    options.limits = {.stall = kLong, .partition = kLong};
    options.clock = &clock_;
    return options;
  }
  PullSpec Spec(int64_t version = kVersion, bool exact = true) {
    return {.generation = Generation(1),
            .version = Version(version),
            .exact = exact,
            .deadline = Clock::Real()->Now() + kLong};
  }
  absl::StatusOr<std::vector<Version>> Pull(const PullSpec& spec) {
    return exchange_.Pull(spec, absl::MakeSpan(weights_), token_);
  }
  // All of the gradient at once.
  absl::Status Push() {
    exchange_.BeginPush(key_, kGrant, gradient_);
    exchange_.PushFrom(0);
    return exchange_.FinishPush(token_);
  }
  std::vector<float> Slice(int shard) const {
    return {gradient_.begin() + shard * kRange,
            gradient_.begin() + (shard + 1) * kRange};
  }

  const int64_t chunk_floats_;
  absl::Notification woken_, ended_;  // Outlive the shards, which use them.
  static constexpr char kGrant[] = "a grant of bytes";
  const GradientKey key_{Generation(1), WorkerId(3), Incarnation(2),
                         Sequence(17)};
  ForwardClock clock_;
  const ParameterLayout layout_ = TwoShards();
  FakeShard shard0_{Ramp(0, kRange), kVersion, chunk_floats_};
  FakeShard shard1_{Ramp(kRange, kFloats), kVersion, chunk_floats_};
  CancelToken token_;
  std::vector<float> weights_ = std::vector<float>(kFloats, -1);
  std::vector<float> gradient_ = Ramp(1000, 1000 + kFloats);
  GrpcExchange exchange_{
      &layout_, {shard0_.address(), shard1_.address()}, Options()};
};

// For slices of several chunks and of one; the parameter is a chunk's floats.
class GrpcExchangeTest : public ExchangeFixture,
                         public ::testing::WithParamInterface<int64_t> {
 protected:
  GrpcExchangeTest() : ExchangeFixture(GetParam()) {}
};
INSTANTIATE_TEST_SUITE_P(ChunksAndWholeSlices, GrpcExchangeTest,
                         ::testing::Values(kChunkFloats, kRange));

class ChunkedExchangeTest : public ExchangeFixture {
 protected:
  ChunkedExchangeTest() : ExchangeFixture(kChunkFloats) {}
};

TEST_P(GrpcExchangeTest, APullFillsTheFlatVectorFromAllShards) {
  const auto versions = Pull(Spec());
  ASSERT_TRUE(versions.ok()) << versions.status();
  EXPECT_THAT(*versions, ElementsAre(Version(kVersion), Version(kVersion)));
  EXPECT_EQ(weights_, Ramp(0, kFloats));
}

// Those of one chunk each fit into HTTP/2's window here.
TEST_P(GrpcExchangeTest, AnswersOfSmallSlicesAreReceivedByWhoWaits) {
  std::atomic<int> asked = 0;
  const FakeShard::Behaviour counts = {
      .on_pull = [&](const proto::PullRequest&) {
        ++asked;
        return grpc::Status::OK;
      }};
  shard0_.set_behaviour(counts);
  shard1_.set_behaviour(counts);
  exchange_.Prefetch(Spec(), absl::MakeSpan(weights_));
  while (asked < 2) std::this_thread::yield();
  // That of another exchange, which takes as long.
  std::vector<float> others(kFloats);
  GrpcExchange other(&layout_, {shard0_.address(), shard1_.address()},
                     Options());
  ASSERT_TRUE(other.Pull(Spec(), absl::MakeSpan(others), token_).ok());
  const int64_t all = kFloats * sizeof(float);
  if (GetParam() == kRange) {
    EXPECT_EQ(exchange_.pulled_bytes_total(), 0);
  } else {
    while (exchange_.pulled_bytes_total() < all) std::this_thread::yield();
  }
  ASSERT_TRUE(Pull(Spec()).ok());
  EXPECT_EQ(exchange_.pulled_bytes_total(), all);
}

TEST_P(GrpcExchangeTest, APullSaysWhoAsksForWhat) {
  std::promise<proto::PullRequest> asked;
  shard1_.set_behaviour({.on_pull = [&](const proto::PullRequest& request) {
    asked.set_value(request);
    return grpc::Status::OK;
  }});
  ASSERT_TRUE(Pull(Spec(5, /*exact=*/false)).ok());
  const proto::PullRequest seen = asked.get_future().get();
  EXPECT_EQ(seen.generation(), 1);
  EXPECT_EQ(seen.version(), 5);
  EXPECT_FALSE(seen.exact());
}

TEST_P(GrpcExchangeTest, APullThatWasBegunAheadAsksOnlyOnce) {
  std::atomic<int> calls = 0;
  absl::Notification asked;
  shard1_.set_behaviour({.on_pull = [&](const proto::PullRequest&) {
    if (++calls == 1) asked.Notify();
    return grpc::Status::OK;
  }});
  exchange_.Prefetch(Spec(), absl::MakeSpan(weights_));
  ASSERT_TRUE(asked.WaitForNotificationWithTimeout(kLong));
  const auto versions = Pull(Spec());
  ASSERT_TRUE(versions.ok()) << versions.status();
  EXPECT_THAT(*versions, ElementsAre(Version(kVersion), Version(kVersion)));
  EXPECT_EQ(weights_, Ramp(0, kFloats));
  EXPECT_EQ(calls, 1);
  // The next one asks anew.
  ASSERT_TRUE(Pull(Spec()).ok());
  EXPECT_EQ(calls, 2);
}

// Also while nobody waits for anything.
TEST_P(GrpcExchangeTest, AShardThatAPullBegunAheadDoesNotReachIsNamed) {
  shard1_.Stop();
  exchange_.Prefetch(Spec(), absl::MakeSpan(weights_));
  const absl::Time end = Clock::Real()->Now() + kLong;
  while (!exchange_.unreached().has_value()) {
    ASSERT_LT(Clock::Real()->Now(), end);
    std::this_thread::yield();
  }
  EXPECT_THAT(exchange_.unreached()->name, HasSubstr("shard 1"));
}

TEST_P(GrpcExchangeTest, APullBegunAheadOfItsVersionIsRepeated) {
  std::atomic<int> calls = 0;
  shard1_.set_behaviour(NotYetTwice(&calls));
  exchange_.Prefetch(Spec(), absl::MakeSpan(weights_));
  ASSERT_TRUE(Pull(Spec()).ok());
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(weights_, Ramp(0, kFloats));
}

TEST_P(GrpcExchangeTest, AnotherPullThanTheOneBegunAheadIsRight) {
  // Version 8 never comes.
  shard1_.set_behaviour({.on_pull = [&](const proto::PullRequest& request) {
    if (request.version() == kVersion + 1) {
      ended_.WaitForNotificationWithTimeout(kLong);
    }
    return grpc::Status::OK;
  }});
  exchange_.Prefetch(Spec(kVersion + 1), absl::MakeSpan(weights_));
  const auto versions = Pull(Spec());
  ended_.Notify();
  ASSERT_TRUE(versions.ok()) << versions.status();
  EXPECT_EQ(weights_, Ramp(0, kFloats));
}

TEST_P(GrpcExchangeTest, WhatWasBegunAheadGoesOnBesideAPullAndAPush) {
  shard1_.set_behaviour({.on_pull = [&](const proto::PullRequest& request) {
    if (request.version() != kVersion) ended_.WaitForNotification();
    return grpc::Status::OK;
  }});
  std::vector<float> prefetched(kFloats, -1);
  const PullSpec later = Spec(kVersion - 1, /*exact=*/false);
  exchange_.Prefetch(later, absl::MakeSpan(prefetched));
  ASSERT_TRUE(Pull(Spec()).ok());
  ASSERT_TRUE(Push().ok());
  ended_.Notify();
  ASSERT_TRUE(exchange_.Pull(later, absl::MakeSpan(prefetched), token_).ok());
  EXPECT_EQ(prefetched, Ramp(0, kFloats));
  EXPECT_EQ(exchange_.pulled_bytes_total(), 2 * kFloats * sizeof(float));
  EXPECT_EQ(exchange_.pushed_bytes_total(), kFloats * sizeof(float));
}

TEST_P(GrpcExchangeTest, AVersionThatIsNotYetThereIsAskedForAgain) {
  std::atomic<int> calls = 0;
  shard1_.set_behaviour(NotYetTwice(&calls));
  ASSERT_TRUE(Pull(Spec()).ok());
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(exchange_.repeated_calls_total(), 2);
  EXPECT_EQ(exchange_.pulled_bytes_total(), kFloats * sizeof(float));
  EXPECT_EQ(weights_, Ramp(0, kFloats));
}

TEST_P(GrpcExchangeTest, AVersionThatIsGoneAbortsThePull) {
  shard1_.set_behaviour({.on_pull = [](const proto::PullRequest&) {
    return grpc::Status(grpc::StatusCode::ABORTED, "version 7 is gone");
  }});
  const absl::Status status = Pull(Spec()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("shard 1"), HasSubstr("version 7 is gone")));
}

TEST_P(GrpcExchangeTest, AWaitThatExceedsTheDeadlineNamesTheShard) {
  std::atomic<int> calls = 0;
  shard1_.set_behaviour({.on_pull = [&](const proto::PullRequest&) {
    if (++calls == 2) clock_.Advance(2 * kLong);
    return kNotYet;
  }});
  const absl::Status status = Pull(Spec()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("shard 1 at " + shard1_.address()),
                    HasSubstr("version 7")));
}

TEST_P(GrpcExchangeTest, ACancelEndsAPullThatWaits) {
  shard1_.set_behaviour({.on_pull = [&](const proto::PullRequest&) {
    token_.Cancel();
    exchange_.Wake();
    ended_.Notify();
    return kNotYet;
  }});
  EXPECT_EQ(Pull(Spec()).status().code(), absl::StatusCode::kAborted);
  ended_.WaitForNotification();  // Nobody uses the exchange any more.
}

TEST_F(ChunkedExchangeTest, AMixtureOfVersionsIsNeverReturned) {
  shard0_.set_behaviour({.on_pull_chunk = [](int i, proto::PullChunk* chunk) {
    if (i == 1) chunk->set_version(kVersion + 1);
  }});
  const absl::Status status = Pull(Spec(kVersion, /*exact=*/false)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("shard 0"));
}

TEST_P(GrpcExchangeTest, AWrongChecksumIsNoticed) {
  shard0_.set_behaviour({.on_pull_chunk = [](int i, proto::PullChunk* chunk) {
    if (i == 0) (*chunk->mutable_data())[5] ^= 1;
  }});
  EXPECT_EQ(Pull(Spec()).status().code(), absl::StatusCode::kDataLoss);
}

TEST_P(GrpcExchangeTest, APullThatEndsTooEarlyIsNoticed) {
  shard0_.set_behaviour(
      {.on_pull_chunk = [this](int i, proto::PullChunk* chunk) {
        if (i < (kRange - 1) / chunk_floats_) return;
        chunk->mutable_data()->resize(chunk->data().size() - sizeof(float));
      }});
  EXPECT_EQ(Pull(Spec()).status().code(), absl::StatusCode::kDataLoss);
}

TEST_P(GrpcExchangeTest, APullSurvivesAShardThatComesBack) {
  shard1_.Stop();
  std::thread back([this] { shard1_.Start(); });
  const auto versions = Pull(Spec());
  back.join();
  ASSERT_TRUE(versions.ok()) << versions.status();
  EXPECT_EQ(weights_, Ramp(0, kFloats));
}

TEST_P(GrpcExchangeTest, AShardThatStaysAwayIsNamed) {
  GrpcExchange::Options options = Options();
  options.limits.partition = absl::Milliseconds(30);
  GrpcExchange impatient(&layout_, {shard0_.address(), shard1_.address()},
                         options);
  shard1_.Stop();
  const absl::Status status =
      impatient.Pull(Spec(), absl::MakeSpan(weights_), token_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("shard 1 at " + shard1_.address()));
}

TEST_P(GrpcExchangeTest, EveryShardStagesItsSliceUnderTheTasksKey) {
  ASSERT_TRUE(Push().ok());
  ASSERT_EQ(shard0_.staged().size(), 1u);
  ASSERT_EQ(shard1_.staged().size(), 1u);
  EXPECT_EQ(shard0_.staged()[0].values, Slice(0));
  EXPECT_EQ(shard1_.staged()[0].values, Slice(1));
  EXPECT_EQ(shard1_.staged()[0].key.sequence(), 17);
  EXPECT_EQ(shard1_.staged()[0].key.incarnation(), 2);
  EXPECT_EQ(shard1_.staged()[0].grant, kGrant);
}

TEST_F(ChunkedExchangeTest, ChunksTravelBeforeTheGradientIsComplete) {
  exchange_.BeginPush(key_, kGrant, gradient_);
  // The last chunk of shard 1 covers floats 192 to 239 of its range.
  exchange_.PushFrom(kRange + 192);
  shard1_.AwaitChunks(1);
  EXPECT_EQ(shard0_.chunks(), 0);
  // What is final later is sent later, and read only then.
  gradient_[0] = 42;
  exchange_.PushFrom(0);
  ASSERT_TRUE(exchange_.FinishPush(token_).ok());
  EXPECT_THAT(shard1_.staged()[0].offsets, ElementsAre(192, 128, 64, 0));
  EXPECT_EQ(shard0_.staged()[0].values[0], 42);
}

TEST_F(ChunkedExchangeTest, OnOneLoopAnExchangePullsAndEndsWhileAnotherPushes) {
  GrpcExchange::Options options = Options();
  const std::vector<std::string> at = {shard0_.address(), shard1_.address()};
  for (const int queues : {1, 2}) {  // With 2 both slices come at once.
    options.loop = std::make_shared<CompletionLoop>(
        CompletionLoop::ServedBy::kThread, queues);
    absl::c_fill(weights_, 0);
    GrpcExchange pushes(&layout_, at, options);
    const int64_t chunks = shard1_.chunks();
    pushes.BeginPush(key_, kGrant, gradient_);
    pushes.PushFrom(kRange + 192);
    shard1_.AwaitChunks(chunks + 1);
    {
      GrpcExchange pulls(&layout_, at, options);
      ASSERT_TRUE(pulls.Pull(Spec(), absl::MakeSpan(weights_), token_).ok());
    }
    EXPECT_EQ(weights_, Ramp(0, kFloats));
    pushes.PushFrom(0);
    ASSERT_TRUE(pushes.FinishPush(token_).ok());
    EXPECT_EQ(shard0_.staged().back().values, Slice(0));
    EXPECT_EQ(shard1_.staged().back().values, Slice(1));
  }
}

// The fake shard's calls are each served by a thread of their own.
TEST_F(ChunkedExchangeTest, OverALongWayOtherCallsBringWhatOneHoldsUp) {
  GrpcExchange::Options options = Options();
  options.window = Window::kRoundTrip;
  GrpcExchange far(&layout_, {shard0_.address(), shard1_.address()}, options);
  absl::Notification others;
  std::atomic<int> read = 0;
  shard1_.set_behaviour({.on_push_chunk = [&](const proto::PushChunk& chunk) {
    if (chunk.offset() == 192) {
      others.WaitForNotification();
    } else if (++read == 3) {
      others.Notify();
    }
    return grpc::Status::OK;
  }});
  far.BeginPush(key_, kGrant, gradient_);
  far.PushFrom(0);
  ASSERT_TRUE(far.FinishPush(token_).ok());
  ASSERT_EQ(shard1_.staged().size(), 1u);
  EXPECT_EQ(shard1_.staged()[0].values, Slice(1));
}

// As where its Ready, with the first floats, has ended the task meanwhile.
TEST_F(ChunkedExchangeTest, OneCallThatStagesAllCountsMoreThanAnEndedTask) {
  GrpcExchange::Options options = Options();
  options.window = Window::kRoundTrip;
  const ParameterLayout layout(layout_.tensors(), /*shards=*/1);
  FakeShard shard(Ramp(0, kFloats), kVersion, chunk_floats_);
  GrpcExchange far(&layout, {shard.address()}, options);
  std::atomic<int> ended = 0;
  absl::Notification others;  // Of eight calls.
  shard.set_behaviour({.on_push_chunk =
                           [&](const proto::PushChunk& chunk) {
                             if (chunk.offset() == 0) {
                               others.WaitForNotificationWithTimeout(kLong);
                             }
                             return grpc::Status::OK;
                           },
                       .after_part =
                           [&] {
                             if (++ended == 7) others.Notify();
                             return grpc::Status(grpc::StatusCode::ABORTED,
                                                 "the task has ended");
                           }});
  far.BeginPush(key_, kGrant, gradient_);
  far.PushLast({});
  EXPECT_TRUE(far.FinishPush(token_).ok());
  EXPECT_EQ(shard.staged().size(), 1u);
  // If it has ended for each of them, it has ended.
  far.AbortPush();
  shard.set_behaviour({.on_push_chunk = [&](const proto::PushChunk&) {
    return grpc::Status(grpc::StatusCode::ABORTED, "the task has ended");
  }});
  far.BeginPush(key_, kGrant, gradient_);
  far.PushFrom(0);
  EXPECT_TRUE(absl::IsAborted(far.FinishPush(token_)));
}

// What is final later goes to calls that have rested, and all of them end.
TEST_F(ChunkedExchangeTest, CallsOfAPushRestUntilThereIsMoreToBring) {
  GrpcExchange::Options options = Options();
  options.window = Window::kRoundTrip;
  GrpcExchange far(&layout_, {shard0_.address(), shard1_.address()}, options);
  for (const int64_t sequence : {1, 2}) {
    const GradientKey key{key_.generation, key_.worker, key_.incarnation,
                          Sequence(sequence)};
    far.BeginPush(key, kGrant, gradient_);
    far.PushFrom(kRange + 64);  // Three chunks of shard 1.
    shard1_.AwaitChunks(4 * (sequence - 1) + 3);
    far.PushFrom(0);
    ASSERT_TRUE(far.FinishPush(token_).ok());
    ASSERT_EQ(shard1_.staged().size(), static_cast<size_t>(sequence));
    EXPECT_EQ(shard1_.staged().back().values, Slice(1));
    EXPECT_EQ(shard0_.staged().back().values, Slice(0));
  }
}

TEST_F(ChunkedExchangeTest, ACallThatBreaksEndsThoseBesideItAndAllIsRepeated) {
  GrpcExchange::Options options = Options();
  options.window = Window::kRoundTrip;
  GrpcExchange far(&layout_, {shard0_.address(), shard1_.address()}, options);
  std::atomic<int> chunks = 0;
  shard1_.set_behaviour({.on_push_chunk = [&](const proto::PushChunk&) {
    return ++chunks == 1 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "broken")
                         : grpc::Status::OK;
  }});
  far.BeginPush(key_, kGrant, gradient_);
  far.PushFrom(kRange + 64);  // The calls beside the one that breaks rest.
  shard1_.AwaitChunks(1);
  far.PushFrom(0);
  ASSERT_TRUE(far.FinishPush(token_).ok());
  ASSERT_EQ(shard1_.staged().size(), 1u);
  EXPECT_EQ(shard1_.staged()[0].values, Slice(1));
  EXPECT_EQ(far.repeated_calls_total(), 1);
}

TEST_P(GrpcExchangeTest, APushThatBreaksIsRepeatedWholeUnderItsKey) {
  std::atomic<int> chunks = 0;
  shard1_.set_behaviour({.on_push_chunk = [&](const proto::PushChunk&) {
    return ++chunks == 1 ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "broken")
                         : grpc::Status::OK;
  }});
  ASSERT_TRUE(Push().ok());
  ASSERT_EQ(shard1_.staged().size(), 1u);
  EXPECT_EQ(shard1_.staged()[0].values, Slice(1));
  EXPECT_EQ(shard0_.staged().size(), 1u) << "only what broke is repeated";
}

TEST_P(GrpcExchangeTest, OneShardTakesAReadyWithTheFirstFloats) {
  EXPECT_FALSE(exchange_.takes_ready()) << "of two shards, one may lag";
  const ParameterLayout layout(layout_.tensors(), /*shards=*/1);
  FakeShard shard(Ramp(0, kFloats), kVersion, chunk_floats_);
  GrpcExchange exchange(&layout, {shard.address()}, Options());
  ASSERT_TRUE(exchange.takes_ready());
  const ParameterLayout part = layout.Part({0, kFloats});
  EXPECT_FALSE(GrpcExchange(&part, {shard.address()}, Options()).takes_ready())
      << "of several members, one may lag";
  std::atomic<int> broken = 0;
  shard.set_behaviour({.on_push_chunk = [&](const proto::PushChunk& chunk) {
    EXPECT_EQ(chunk.ready().empty(), chunk.offset() > 0) << chunk.offset();
    return chunk.offset() == 0 && ++broken == 1
               ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "broken")
               : grpc::Status::OK;
  }});
  proto::Ready ready;
  ready.set_loss(2);
  exchange.BeginPush(key_, kGrant, gradient_);
  exchange.PushFrom(kRange);
  exchange.PushLast(ready);
  ASSERT_TRUE(exchange.FinishPush(token_).ok());
  EXPECT_EQ(broken, 2) << "what is repeated brings it again";
  ASSERT_EQ(shard.staged().size(), 1u);
  EXPECT_EQ(shard.staged()[0].values, gradient_);
  EXPECT_EQ(shard.staged()[0].ready, ready.SerializeAsString());
  // The next gradient says nothing of the one before.
  shard.set_behaviour({.on_push_chunk = [&](const proto::PushChunk& chunk) {
    EXPECT_EQ(chunk.ready(), "");
    return grpc::Status::OK;
  }});
  GradientKey next = key_;
  ++next.sequence;
  exchange.AbortPush();
  exchange.BeginPush(next, kGrant, gradient_);
  exchange.PushFrom(0);
  EXPECT_TRUE(exchange.FinishPush(token_).ok());
}

TEST_P(GrpcExchangeTest, WhatWasBegunAheadMayBeGivenUpAtOnce) {
  std::vector<float> ahead(kFloats);
  for (int i = 0; i < 50; ++i) {
    exchange_.Prefetch(Spec(), absl::MakeSpan(ahead));
    exchange_.AbortPrefetch();
  }
  EXPECT_TRUE(Pull(Spec()).ok());
}

TEST_P(GrpcExchangeTest, ARefusedGradientComesBackWithTheShardsWords) {
  shard1_.set_behaviour({.on_push_chunk = [](const proto::PushChunk&) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                        "dense0.weight is nan");
  }});
  const absl::Status status = Push();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("shard 1"), HasSubstr("dense0.weight is nan")));
}

TEST_P(GrpcExchangeTest, AReplyThatNamesAnotherSizeIsNotBelieved) {
  shard0_.set_behaviour({.staged_too_many = 1});
  const absl::Status status = Push();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("staged 241 floats, expected 240"));
}

// A slice of one chunk may have been sent whole by then.
TEST_F(ChunkedExchangeTest, AnAbortedPushIsCancelledAndTheNextOneWorks) {
  exchange_.BeginPush(key_, kGrant, gradient_);
  exchange_.PushFrom(kRange + 100);
  shard1_.AwaitChunks(1);
  exchange_.AbortPush();
  shard1_.AwaitCancelledCall();
  EXPECT_TRUE(shard1_.staged().empty());
  EXPECT_EQ(shard0_.chunks(), 0);
  ASSERT_TRUE(Push().ok());
  EXPECT_EQ(shard1_.staged()[0].values, Slice(1));
}

TEST_P(GrpcExchangeTest, ACancelEndsAPushThatWaitsForItsShards) {
  shard1_.set_behaviour({.on_push_chunk = [&](const proto::PushChunk&) {
    if (woken_.HasBeenNotified()) return grpc::Status::OK;
    token_.Cancel();
    exchange_.Wake();
    woken_.Notify();
    ended_.WaitForNotification();
    return grpc::Status::OK;
  }});
  const absl::Status status = Push();
  woken_.WaitForNotification();
  ended_.Notify();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
}

TEST_P(GrpcExchangeTest, AnAnswerWithoutWeightsIsNoAnswer) {
  shard0_.set_behaviour({.silent = true});
  EXPECT_EQ(Pull(Spec()).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace sluice

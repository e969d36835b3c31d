// What a pull gives before all of it is there.
#include <atomic>
#include <numeric>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/exchange/fake_shard.h"
#include "worker/exchange/grpc_exchange.h"

namespace sluice {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::Ge;
using ::testing::Le;

constexpr int64_t kChunk = 64, kRange = 4 * kChunk, kFloats = 2 * kRange;
constexpr int64_t kVersion = 7;

// Far longer than any test takes: a wait that lasts so long is a failure.
constexpr absl::Duration kLong = absl::Seconds(30);

const grpc::Status kBroken(grpc::StatusCode::UNAVAILABLE, "broken");

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

// Counts how often it is looked at.
class CountingClock final : public Clock {
 public:
  absl::Time Now() override {
    absl::MutexLock lock(&mu_);
    ++looks_;
    return Clock::Real()->Now();
  }
  bool AwaitLooks(int looks) {
    absl::MutexLock lock(&mu_);
    const auto enough = [&]() ABSL_SHARED_LOCKS_REQUIRED(mu_) {
      return looks_ >= looks;
    };
    return mu_.AwaitWithTimeout(absl::Condition(&enough), kLong);
  }

 private:
  absl::Mutex mu_;
  int looks_ ABSL_GUARDED_BY(mu_) = 0;
};

// Two fake shards that hold 0, 1, 2, ... at version 7, four chunks each.
class StreamedPullTest : public ::testing::Test {
 protected:
  ~StreamedPullTest() override {
    if (!go_on_.HasBeenNotified()) go_on_.Notify();
  }

  GrpcExchange::Options Options() {
    GrpcExchange::Options options;
    options.chunk_bytes = kChunk * sizeof(float);
    options.limits = {.stall = kLong, .partition = kLong};
    return options;
  }
  void Begin(bool exact = true) {
    exchange_.BeginPull({.generation = Generation(1),
                         .version = Version(kVersion),
                         .exact = exact,
                         .deadline = Clock::Real()->Now() + kLong},
                        absl::MakeSpan(weights_));
  }
  // What Await returns then.
  static constexpr int64_t kRestarted = -2;
  int64_t Await(int64_t end) {
    const auto there = exchange_.AwaitPulled(end, token_);
    EXPECT_TRUE(there.ok()) << there.status();
    if (!there.ok()) return -1;
    return IsRestarted(*there) ? kRestarted : std::get<int64_t>(*there);
  }
  void FinishAndExpectAll() {
    const auto versions = exchange_.FinishPull(token_);
    ASSERT_TRUE(versions.ok()) << versions.status();
    EXPECT_THAT(*versions, ElementsAre(Version(kVersion), Version(kVersion)));
    EXPECT_EQ(weights_, Ramp(0, kFloats));
  }
  std::vector<float> First(int64_t floats) const {
    return {weights_.begin(), weights_.begin() + floats};
  }
  // Holds the shard back before its chunk `i` until `go_on_`; where that is
  // the first time it is asked it then breaks, if it is to.
  FakeShard::Behaviour HeldBefore(int chunk, bool breaks = false) {
    return {.before_pull_chunk = [this, chunk, breaks](int i) {
      if (i != chunk) return grpc::Status::OK;
      go_on_.WaitForNotificationWithTimeout(kLong);
      return breaks && asked_++ == 0 ? kBroken : grpc::Status::OK;
    }};
  }

  absl::Notification go_on_;  // Outlives the shards, which may wait for it.
  std::atomic<int> asked_ = 0;
  std::atomic<int> ended_ = 0;  // Calls that were held.
  const ParameterLayout layout_ = TwoShards();
  FakeShard shard0_{Ramp(0, kRange), kVersion, kChunk};
  FakeShard shard1_{Ramp(kRange, kFloats), kVersion, kChunk};
  CancelToken token_;
  std::vector<float> weights_ = std::vector<float>(kFloats, -1);
  GrpcExchange exchange_{
      &layout_, {shard0_.address(), shard1_.address()}, Options()};
};

TEST_F(StreamedPullTest, WhatHasComeIsThereBeforeTheRest) {
  shard0_.set_behaviour(HeldBefore(2));
  Begin();
  EXPECT_EQ(Await(kChunk + 1), 2 * kChunk);
  EXPECT_EQ(First(2 * kChunk), Ramp(0, 2 * kChunk));
  go_on_.Notify();
  EXPECT_EQ(Await(kFloats), kFloats);
  FinishAndExpectAll();
}

// Its end would come a round trip later where memory is shared.
TEST_F(StreamedPullTest, APullIsOverBeforeItsCallsHaveEnded) {
  const FakeShard::Behaviour held = {.after_pull_chunks = [this] {
    go_on_.WaitForNotificationWithTimeout(kLong / 2);
    ++ended_;
    return grpc::Status::OK;
  }};
  shard0_.set_behaviour(held);
  shard1_.set_behaviour(held);
  for (int pull = 0; pull < 2; ++pull) {  // The first has not ended then.
    weights_.assign(kFloats, -1);
    Begin();
    EXPECT_EQ(Await(kFloats), kFloats);
    FinishAndExpectAll();
  }
  EXPECT_EQ(ended_, 0);
}

TEST_F(StreamedPullTest, TheFirstFloatsCountWhateverTheSecondShardHasSent) {
  shard1_.set_behaviour(HeldBefore(1));
  Begin();
  EXPECT_THAT(Await(kRange), AllOf(Ge(kRange), Le(kRange + kChunk)));
  EXPECT_EQ(Await(kRange + 1), kRange + kChunk);
  go_on_.Notify();
  EXPECT_EQ(Await(kFloats), kFloats);
  FinishAndExpectAll();
}

TEST_F(StreamedPullTest, ABrokenPullGoesOnWhereItBrokeOff) {
  absl::Mutex mu;
  std::vector<proto::PullRequest> asked;
  FakeShard::Behaviour behaviour = HeldBefore(2, /*breaks=*/true);
  behaviour.on_pull = [&](const proto::PullRequest& request) {
    absl::MutexLock lock(&mu);
    asked.push_back(request);
    return grpc::Status::OK;
  };
  shard0_.set_behaviour(behaviour);
  Begin(/*exact=*/false);
  ASSERT_EQ(Await(kChunk + 1), 2 * kChunk);
  go_on_.Notify();
  // What was given stays as it is.
  EXPECT_GE(Await(2 * kChunk + 1), 2 * kChunk + 1);
  EXPECT_EQ(Await(kFloats), kFloats);
  FinishAndExpectAll();
  EXPECT_EQ(exchange_.repeated_calls_total(), 1);
  absl::MutexLock lock(&mu);
  ASSERT_EQ(asked.size(), 2u);
  EXPECT_EQ(asked[0].offset(), 0);
  EXPECT_FALSE(asked[0].exact());
  EXPECT_EQ(asked[1].offset(), 2 * kChunk);
  EXPECT_EQ(asked[1].version(), kVersion);
  EXPECT_TRUE(asked[1].exact());
}

// The second time the version is gone, the third time there is a newer one.
TEST_F(StreamedPullTest, AVersionThatIsGoneMeanwhileIsToldOnceAndBegunAnew) {
  std::atomic<int> pulls = 0;
  FakeShard::Behaviour behaviour = HeldBefore(2, /*breaks=*/true);
  behaviour.on_pull = [&](const proto::PullRequest& request) {
    ++pulls;
    return request.offset() == 0
               ? grpc::Status::OK
               : grpc::Status(grpc::StatusCode::ABORTED, "version 7 is gone");
  };
  behaviour.on_pull_chunk = [&](int, proto::PullChunk* chunk) {
    if (pulls > 1) chunk->set_version(kVersion + 1);
  };
  shard0_.set_behaviour(behaviour);
  Begin(/*exact=*/false);
  ASSERT_EQ(Await(kChunk + 1), 2 * kChunk);
  go_on_.Notify();
  EXPECT_EQ(Await(2 * kChunk + 1), kRestarted);
  EXPECT_GE(Await(1), 2 * kChunk + 1);
  EXPECT_EQ(Await(kFloats), kFloats);
  const auto versions = exchange_.FinishPull(token_);
  ASSERT_TRUE(versions.ok()) << versions.status();
  EXPECT_THAT(*versions, ElementsAre(Version(kVersion + 1), Version(kVersion)));
  EXPECT_EQ(weights_, Ramp(0, kFloats));
  EXPECT_EQ(pulls, 3);
}

TEST_F(StreamedPullTest, AnExactPullWhoseVersionIsGoneMeanwhileIsOver) {
  FakeShard::Behaviour behaviour = HeldBefore(2, /*breaks=*/true);
  behaviour.on_pull = [&](const proto::PullRequest& request) {
    return request.offset() == 0
               ? grpc::Status::OK
               : grpc::Status(grpc::StatusCode::ABORTED, "version 7 is gone");
  };
  shard0_.set_behaviour(behaviour);
  go_on_.Notify();
  Begin(/*exact=*/true);
  EXPECT_TRUE(absl::IsAborted(exchange_.FinishPull(token_).status()));
}

// A read that the shard has ended is of a version that it no longer holds.
TEST_F(StreamedPullTest, AReadThatTheShardHasEndedIsBegunAnew) {
  std::atomic<int> pulls = 0;
  shard0_.set_behaviour(
      {.on_pull =
           [&](const proto::PullRequest& request) {
             ++pulls;
             EXPECT_EQ(request.offset(), 0);
             return grpc::Status::OK;
           },
       .before_pull_chunk =
           [&](int i) {
             return i == 2 && pulls == 1
                        ? grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED,
                                       "ended")
                        : grpc::Status::OK;
           }});
  Begin(/*exact=*/false);
  FinishAndExpectAll();
  EXPECT_EQ(pulls, 2);
}

TEST_F(StreamedPullTest, APullThatStallsIsGivenUpAndGoesOn) {
  shard0_.set_behaviour({.before_pull_chunk = [this](int i) {
    if (i == 2 && asked_++ == 0) go_on_.WaitForNotificationWithTimeout(kLong);
    return grpc::Status::OK;
  }});
  GrpcExchange::Options options = Options();
  options.limits.stall = absl::Milliseconds(200);
  GrpcExchange exchange(&layout_, {shard0_.address(), shard1_.address()},
                        options);
  const auto versions =
      exchange.Pull({.generation = Generation(1),
                     .version = Version(kVersion),
                     .exact = true,
                     .deadline = Clock::Real()->Now() + kLong},
                    absl::MakeSpan(weights_), token_);
  go_on_.Notify();
  ASSERT_TRUE(versions.ok()) << versions.status();
  EXPECT_EQ(weights_, Ramp(0, kFloats));
  EXPECT_EQ(asked_, 2) << "what was there was not asked for again";
}

TEST_F(StreamedPullTest, AShardThatBreaksBeforeAnythingWasGivenIsNotTold) {
  shard0_.set_behaviour(HeldBefore(1));
  shard1_.set_behaviour(HeldBefore(2, /*breaks=*/true));
  Begin();
  ASSERT_EQ(Await(1), kChunk);
  go_on_.Notify();
  EXPECT_EQ(Await(kFloats), kFloats);
  FinishAndExpectAll();
  EXPECT_EQ(exchange_.repeated_calls_total(), 1);
}

TEST_F(StreamedPullTest, AShardThatBreaksBehindItsLastChunkHasGivenAll) {
  shard0_.set_behaviour({.after_pull_chunks = [] { return kBroken; }});
  Begin(/*exact=*/false);
  EXPECT_EQ(Await(kFloats), kFloats);
  FinishAndExpectAll();
  EXPECT_EQ(exchange_.repeated_calls_total(), 0);
}

TEST_F(StreamedPullTest, ASliceOfOneWrongChunkIsNeverThere) {
  FakeShard whole0(Ramp(0, kRange), kVersion, kRange);
  FakeShard whole1(Ramp(kRange, kFloats), kVersion, kRange);
  whole0.set_behaviour({.on_pull_chunk = [](int, proto::PullChunk* chunk) {
    (*chunk->mutable_data())[5] ^= 1;
  }});
  GrpcExchange::Options options = Options();
  options.chunk_bytes = kRange * sizeof(float);
  GrpcExchange exchange(&layout_, {whole0.address(), whole1.address()},
                        options);
  exchange.BeginPull({.generation = Generation(1),
                      .version = Version(kVersion),
                      .exact = true,
                      .deadline = Clock::Real()->Now() + kLong},
                     absl::MakeSpan(weights_));
  EXPECT_EQ(exchange.AwaitPulled(1, token_).status().code(),
            absl::StatusCode::kDataLoss);
  exchange.AbortPull();
}

TEST_F(StreamedPullTest, ACancelEndsTheWaitForAPart) {
  shard0_.set_behaviour(HeldBefore(1));
  Begin();
  ASSERT_EQ(Await(1), kChunk);
  std::thread cancels([this] {
    token_.Cancel();
    exchange_.Wake();
  });
  const auto there = exchange_.AwaitPulled(kChunk + 1, token_);
  cancels.join();
  EXPECT_TRUE(absl::IsAborted(there.status()));
  exchange_.AbortPull();
  // Another pull begins from nothing.
  token_.Reset();
  go_on_.Notify();
  Begin();
  EXPECT_EQ(Await(kFloats), kFloats);
  FinishAndExpectAll();
}

TEST_F(StreamedPullTest, AnErrorOfALaterChunkIsNamedWithItsShard) {
  shard1_.set_behaviour({.on_pull_chunk = [](int i, proto::PullChunk* chunk) {
    if (i == 3) (*chunk->mutable_data())[5] ^= 1;
  }});
  Begin();
  const auto there = exchange_.AwaitPulled(kFloats, token_);
  EXPECT_EQ(there.status().code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(there.status().message()),
              ::testing::HasSubstr("shard 1 at " + shard1_.address()));
  exchange_.AbortPull();
}

TEST_F(StreamedPullTest, ItIsToldWhenTheFloatsTravelled) {
  shard0_.set_behaviour(HeldBefore(2));
  const absl::Time begin = Clock::Real()->Now();
  Begin();
  ASSERT_EQ(Await(kChunk + 1), 2 * kChunk);
  const absl::Time held = Clock::Real()->Now();
  go_on_.Notify();
  ASSERT_EQ(Await(kFloats), kFloats);
  FinishAndExpectAll();
  const auto travels = exchange_.pull_travels();
  ASSERT_FALSE(travels.empty());
  EXPECT_GE(travels.front().begin, begin);
  EXPECT_LE(travels.front().begin, held);
  EXPECT_GE(travels.back().end, held);
  EXPECT_LE(travels.back().end, Clock::Real()->Now());
}

TEST_F(StreamedPullTest, AGradientTravelsOnlyWhileItsChunksAreSent) {
  CountingClock clock;
  GrpcExchange::Options options = Options();
  options.clock = &clock;
  const std::vector<float> gradient(kFloats, 1);
  GrpcExchange exchange(&layout_, {shard0_.address(), shard1_.address()},
                        options);
  exchange.BeginPush({Generation(1), WorkerId(3), Incarnation(2), Sequence(1)},
                     /*grant=*/"5", gradient);
  exchange.PushFrom(kFloats - kChunk);
  // For the deadline, when the chunk is sent, and when nothing follows it.
  ASSERT_TRUE(clock.AwaitLooks(3));
  const absl::Time rests = Clock::Real()->Now();
  // First to the same shard alone, which waits until it has said that it rests.
  exchange.PushFrom(kFloats - 2 * kChunk);
  exchange.PushFrom(0);
  ASSERT_TRUE(exchange.FinishPush(token_).ok());
  const auto travels = exchange.push_travels();
  ASSERT_GE(travels.size(), 2u);
  EXPECT_LE(travels[0].end, rests);
  EXPECT_GE(travels[1].begin, rests);
}

}  // namespace
}  // namespace sluice

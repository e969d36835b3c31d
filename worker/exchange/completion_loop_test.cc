#include "worker/exchange/completion_loop.h"

#include <grpcpp/alarm.h>

#include <atomic>
#include <thread>

#include "absl/synchronization/notification.h"
#include "common/clock.h"
#include "common/rpc/completion_tag.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// Far longer than any test takes: a wait that lasts so long is a failure.
constexpr absl::Duration kLong = absl::Seconds(30);

using ServedBy = CompletionLoop::ServedBy;

// Something under way on a loop, which sets `ended` when it ends.
class Operation : public CompletionTag {
 public:
  explicit Operation(absl::Mutex* mu) : mu_(*mu) {}
  void Begin(CompletionLoop* loop, int shard = 0) {
    alarm_.Set(loop->queue(shard), gpr_inf_past(GPR_CLOCK_MONOTONIC),
               address());
  }
  void Complete(bool ok) override {
    absl::MutexLock lock(&mu_);
    on_ = std::this_thread::get_id();
    ended = true;
  }
  std::thread::id on() const { return on_; }

  bool ended = false;

 private:
  absl::Mutex& mu_;
  grpc::Alarm alarm_;
  std::thread::id on_;
};

class CompletionLoopTest : public ::testing::TestWithParam<ServedBy> {
 protected:
  bool Await(const bool* until, absl::Duration timeout = kLong) {
    absl::MutexLock lock(&mu_);
    return loop_.Await(&mu_, absl::Condition(until), timeout);
  }

  absl::Mutex mu_;
  CompletionLoop loop_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(ThreadAndWaiter, CompletionLoopTest,
                         ::testing::Values(ServedBy::kThread,
                                           ServedBy::kWaiter));

TEST_P(CompletionLoopTest, AWaitEndsWithTheOperationsThatItIsFor) {
  Operation first(&mu_), second(&mu_);
  first.Begin(&loop_);
  second.Begin(&loop_);
  EXPECT_TRUE(Await(&second.ended));
  EXPECT_TRUE(Await(&first.ended));
}

TEST_P(CompletionLoopTest, OnlyWhoWaitsRunsWhatEndsWhereThatServesTheLoop) {
  Operation operation(&mu_);
  operation.Begin(&loop_);
  ASSERT_TRUE(Await(&operation.ended));
  EXPECT_EQ(operation.on() == std::this_thread::get_id(),
            GetParam() == ServedBy::kWaiter);
  EXPECT_EQ(loop_.served_by(), GetParam());
}

TEST_P(CompletionLoopTest, AWaitForNothingEndsInTime) {
  const bool never = false;
  EXPECT_FALSE(Await(&never, absl::Milliseconds(1)));
  EXPECT_FALSE(Await(&never, absl::ZeroDuration()));
  const bool already = true;
  EXPECT_TRUE(Await(&already, absl::ZeroDuration()));
}

// Of what no operation brings about, and under no lock.
TEST_P(CompletionLoopTest, AWaitIsToldOfWhatAnotherThreadHasChanged) {
  std::atomic<bool> changed = false;
  absl::Notification waits;
  std::thread other([&] {
    waits.WaitForNotification();
    changed = true;
    loop_.Wake(&mu_);
  });
  const auto looks = [&] {
    if (!waits.HasBeenNotified()) waits.Notify();
    return changed.load();
  };
  const absl::Time end = Clock::Real()->Now() + kLong;
  {
    absl::MutexLock lock(&mu_);
    EXPECT_TRUE(loop_.Await(&mu_, absl::Condition(&looks), kLong));
  }
  EXPECT_LT(Clock::Real()->Now(), end)
      << "it was told, and did not look in the end";
  other.join();
  loop_.Wake(&mu_);  // Nobody waits: the loop ends with it.
}

TEST_P(CompletionLoopTest, WhatSomebodyElseHasHeardIsNotMissed) {
  std::atomic<bool> over = false;
  std::thread listens([&] {
    while (!over) loop_.Listen();
  });
  for (int i = 0; i < 1000; ++i) {
    Operation operation(&mu_);
    operation.Begin(&loop_);
    ASSERT_TRUE(Await(&operation.ended));
    const absl::MutexLock until_completed(&mu_);
  }
  over = true;
  listens.join();
}

// While one shard's operation holds up its thread.
TEST(CompletionLoop, ShardsOfSeveralQueuesDoNotWaitForEachOther) {
  class HeldUp : public CompletionTag {
   public:
    void Complete(bool ok) override { other.WaitForNotification(); }
    absl::Notification other;
    grpc::Alarm alarm;
  } held_up;
  absl::Mutex mu;
  Operation second(&mu), fourth(&mu), third(&mu);
  CompletionLoop loop(ServedBy::kThread, /*queues=*/2);
  EXPECT_EQ(loop.served_by(), ServedBy::kThread);
  held_up.alarm.Set(loop.queue(0), gpr_inf_past(GPR_CLOCK_MONOTONIC),
                    held_up.address());
  second.Begin(&loop, 1);
  fourth.Begin(&loop, 3);
  const auto both = [&] { return second.ended && fourth.ended; };
  {
    absl::MutexLock lock(&mu);
    EXPECT_TRUE(loop.Await(&mu, absl::Condition(&both), kLong));
    EXPECT_EQ(second.on(), fourth.on());
  }
  // One of a shard waits for that of the same shard.
  third.Begin(&loop, 2);
  held_up.other.Notify();
  absl::MutexLock lock(&mu);
  EXPECT_TRUE(loop.Await(&mu, absl::Condition(&third.ended), kLong));
  EXPECT_NE(third.on(), second.on());
}

TEST(CompletionLoop, WhoListensHearsWhatNobodyWaitsFor) {
  absl::Mutex mu;
  CompletionLoop loop(ServedBy::kWaiter);
  loop.Listen();  // Nothing has ended.
  Operation operation(&mu);
  operation.Begin(&loop);
  const absl::Time end = Clock::Real()->Now() + kLong;
  while (!operation.ended && Clock::Real()->Now() < end) loop.Listen();
  EXPECT_TRUE(operation.ended);
  EXPECT_EQ(operation.on(), std::this_thread::get_id());
}

TEST(CompletionLoop, WhatNobodyHasWaitedForEndsWithTheLoop) {
  absl::Mutex mu;
  Operation operation(&mu);
  {
    CompletionLoop loop(ServedBy::kWaiter);
    operation.Begin(&loop);
  }
  EXPECT_TRUE(operation.ended);
}

}  // namespace
}  // namespace sluice

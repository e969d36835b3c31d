#include "worker/task/cancel_token.h"

#include <thread>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(CancelTokenTest, AWaitEndsWithItsTime) {
  const CancelToken token;
  EXPECT_FALSE(token.WaitFor(absl::Milliseconds(1)));
}

TEST(CancelTokenTest, ACancelledTokenIsNotWaitedFor) {
  CancelToken token;
  token.Cancel();
  EXPECT_TRUE(token.WaitFor(absl::Hours(1)));
  token.Reset();
  EXPECT_FALSE(token.WaitFor(absl::ZeroDuration()));
}

TEST(CancelTokenTest, ACancelEndsAWait) {
  CancelToken token;
  bool cancelled = false;
  std::thread waiter([&] { cancelled = token.WaitFor(absl::Hours(1)); });
  token.Cancel();
  waiter.join();
  EXPECT_TRUE(cancelled);
}

}  // namespace
}  // namespace sluice

#include "cli/launch/signal_wait.h"

#include <gtest/gtest.h>
#include <pthread.h>

namespace sluice {
namespace {

// What has been sent to this thread is there at once.
constexpr absl::Duration kAtOnce = absl::ZeroDuration();

// Sets what a signal does, until its end.
class SignalIs {
 public:
  SignalIs(int number, sighandler_t handler)
      : number_(number), before_(signal(number, handler)) {}
  ~SignalIs() { signal(number_, before_); }

 private:
  const int number_;
  const sighandler_t before_;
};

TEST(SignalWaitTest, AHangUpIsTakenLikeAnInterrupt) {
  for (const int number : {SIGHUP, SIGINT}) {
    const SignalIs by_default(number, SIG_DFL);
    SignalWait signals;
    pthread_kill(pthread_self(), number);
    EXPECT_EQ(signals.WaitFor(kAtOnce), number);
  }
}

TEST(SignalWaitTest, WhatWasIgnoredBeforeStaysIgnored) {
  for (const int number : {SIGHUP, SIGINT}) {
    const SignalIs ignored(number, SIG_IGN);
    SignalWait signals;
    pthread_kill(pthread_self(), number);
    EXPECT_EQ(signals.WaitFor(kAtOnce), std::nullopt);
  }
}

}  // namespace
}  // namespace sluice

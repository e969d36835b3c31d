#include "cli/launch/signal_wait.h"

#include <gtest/gtest.h>
#include <pthread.h>

namespace sluice {
namespace {

// What has been sent to this thread is there at once.
constexpr absl::Duration kAtOnce = absl::ZeroDuration();

// Sets what SIGHUP does, until its end.
class HangUpIs {
 public:
  explicit HangUpIs(sighandler_t handler) : before_(signal(SIGHUP, handler)) {}
  ~HangUpIs() { signal(SIGHUP, before_); }

 private:
  const sighandler_t before_;
};

TEST(SignalWaitTest, AHangUpIsTakenLikeAnInterrupt) {
  const HangUpIs by_default(SIG_DFL);
  SignalWait signals;
  pthread_kill(pthread_self(), SIGHUP);
  EXPECT_EQ(signals.WaitFor(kAtOnce), SIGHUP);
}

TEST(SignalWaitTest, AHangUpThatWasIgnoredBeforeStaysIgnored) {
  const HangUpIs ignored(SIG_IGN);
  SignalWait signals;
  pthread_kill(pthread_self(), SIGHUP);
  EXPECT_EQ(signals.WaitFor(kAtOnce), std::nullopt);
}

}  // namespace
}  // namespace sluice

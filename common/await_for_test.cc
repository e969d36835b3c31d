#include "common/await_for.h"

#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

#include <atomic>
#include <thread>
#include <vector>

#include "common/clock.h"
#include "gtest/gtest.h"

namespace {

// Seconds by which the C library's wall clock is put forward. The system's
// clock stays behind, as if it had been put back in the meantime.
std::atomic<int64_t> wall_ahead_s = 0;

}  // namespace

extern "C" int clock_gettime(clockid_t clock, struct timespec* time) noexcept {
  static auto* const real = reinterpret_cast<int (*)(clockid_t, timespec*)>(
      dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, time);
  if (clock == CLOCK_REALTIME) time->tv_sec += wall_ahead_s;
  return result;
}
extern "C" int gettimeofday(struct timeval* time, void*) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

namespace sluice {
namespace {

// Far longer than any test takes.
constexpr absl::Duration kLong = absl::Seconds(30);

class AwaitForTest : public ::testing::Test {
 protected:
  ~AwaitForTest() override { wall_ahead_s = 0; }

  absl::Mutex mu_;
  bool done_ ABSL_GUARDED_BY(mu_) = false;
};

TEST_F(AwaitForTest, AConditionThatHoldsIsNotWaitedFor) {
  absl::MutexLock lock(&mu_);
  done_ = true;
  EXPECT_TRUE(AwaitFor(&mu_, absl::Condition(&done_), kLong));
  EXPECT_TRUE(AwaitFor(&mu_, absl::Condition(&done_), absl::ZeroDuration()));
}

TEST_F(AwaitForTest, AConditionThatComesEndsTheWait) {
  for (const absl::Duration timeout : {kLong, absl::InfiniteDuration()}) {
    std::thread other([this] {
      absl::MutexLock lock(&mu_);
      done_ = true;
    });
    {
      absl::MutexLock lock(&mu_);
      EXPECT_TRUE(AwaitFor(&mu_, absl::Condition(&done_), timeout));
      done_ = false;
    }
    other.join();
  }
}

TEST_F(AwaitForTest, AConditionThatDoesNotComeIsWaitedForAsLongAsItSays) {
  absl::MutexLock lock(&mu_);
  const absl::Time begin = Clock::Real()->Now();
  EXPECT_FALSE(AwaitFor(&mu_, absl::Condition(&done_), absl::Milliseconds(50)));
  EXPECT_GE(Clock::Real()->Now() - begin, absl::Milliseconds(50));
}

// Who rings still means to look when the earlier wait would have been over.
TEST_F(AwaitForTest, AWaitIsOnTimeAfterOneThatEndedEarly) {
  constexpr absl::Duration kWait = absl::Milliseconds(40);
  for (const absl::Duration earlier : {kWait / 2, kLong}) {
    absl::MutexLock lock(&mu_);
    // It gets the lock when the wait has begun.
    std::thread other([this] {
      absl::MutexLock lock(&mu_);
      done_ = true;
    });
    AwaitFor(&mu_, absl::Condition(&done_), earlier);
    mu_.Await(absl::Condition(&done_));
    done_ = false;
    const absl::Time begin = Clock::Real()->Now();
    EXPECT_FALSE(AwaitFor(&mu_, absl::Condition(&done_), kWait));
    const absl::Duration took = Clock::Real()->Now() - begin;
    EXPECT_GE(took, kWait);
    EXPECT_LT(took, kLong / 2);
    other.join();
  }
}

TEST_F(AwaitForTest, AWallClockThatIsPutBackDoesNotProlongTheWait) {
  wall_ahead_s = 10;
  absl::MutexLock lock(&mu_);
  const absl::Time begin = Clock::Real()->Now();
  EXPECT_FALSE(AwaitFor(&mu_, absl::Condition(&done_), absl::Milliseconds(50)));
  EXPECT_LT(Clock::Real()->Now() - begin, absl::Seconds(9));
}

TEST_F(AwaitForTest, ManyWaitAtOnceEachForItsOwnTime) {
  std::atomic<int> over = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 20; ++i) {
    threads.emplace_back([this, i, &over] {
      for (int round = 0; round < 20; ++round) {
        absl::MutexLock lock(&mu_);
        const absl::Duration timeout = absl::Microseconds(37 * i + 100 * round);
        over += !AwaitFor(&mu_, absl::Condition(&done_), timeout);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(over, 400);
}

}  // namespace
}  // namespace sluice

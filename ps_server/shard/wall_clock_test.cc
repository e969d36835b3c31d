// What happens to calls when somebody sets the wall clock: nothing.
#include <dlfcn.h>
#include <sys/time.h>
#include <time.h>

#include <atomic>
#include <future>

#include "common/exchange_error.h"
#include "gtest/gtest.h"
#include "ps_server/shard/loopback_testing.h"
#include "ps_server/shard/shard_testing.h"

namespace {

// Seconds by which the wall clock of this process has been put forward.
std::atomic<int64_t> wall_steps_s = 0;

}  // namespace

// These take the place of the C library's for every library of this process.
extern "C" int clock_gettime(clockid_t clock, struct timespec* time) noexcept {
  static auto* const real = reinterpret_cast<int (*)(clockid_t, timespec*)>(
      dlsym(RTLD_NEXT, "clock_gettime"));
  const int result = real(clock, time);
  if (clock == CLOCK_REALTIME) time->tv_sec += wall_steps_s;
  return result;
}
extern "C" int gettimeofday(struct timeval* time, void*) noexcept {
  timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  time->tv_sec = now.tv_sec;
  time->tv_usec = now.tv_nsec / 1000;
  return 0;
}

namespace sluice::testing {
namespace {

// Only back: what the libraries wait for in the kernel is a time of its clock,
// which this test cannot set, and would lie an hour ahead there.
class WallClockTest : public ::testing::Test {
 protected:
  static constexpr int64_t kStepS = -3600;
  // Somebody sets the wall clock, after this process began.
  void Step() { wall_steps_s = kStepS; }
  ~WallClockTest() override { wall_steps_s = 0; }

  Loopback loopback_{SmallOptions(), /*stall=*/absl::Seconds(10)};
  std::unique_ptr<proto::Exchange::Stub> client_ = loopback_.Client();
};

TEST_F(WallClockTest, TheTestsOwnWallClockIsSetForEveryLibrary) {
  const auto wall = [] { return gpr_now(GPR_CLOCK_REALTIME).tv_sec; };
  const int64_t before = wall();
  Step();
  EXPECT_NEAR(wall() - before, kStepS, 100);
  EXPECT_NEAR(absl::ToUnixSeconds(Clock::Real()->Now()), before, 100);
}

// It was never answered.
TEST_F(WallClockTest, AParkedPullStaysParkedForAsLongAsItWouldHave) {
  Step();
  const absl::Time begin = Clock::Real()->Now();
  const Pulled pulled =
      Pull(client_.get(), 1, true, /*deadline=*/absl::Seconds(2));
  EXPECT_EQ(ReasonOf(pulled.status), proto::ExchangeError::NOT_YET)
      << pulled.status;
  EXPECT_GE(Clock::Real()->Now() - begin, absl::Seconds(1));
}

TEST_F(WallClockTest, AParkedPullIsAnsweredWhenItsVersionComes) {
  auto pulled = std::async(std::launch::async,
                           [this] { return Pull(client_.get(), 1, true); });
  loopback_.Await(&ExchangeCounters::pulls_parked, 1);
  Step();
  const ChunkGrid grid(kFloats, 64);
  ASSERT_TRUE(Push(client_.get(), Gradient(Key(1), grid, 1)).ok());
  ASSERT_TRUE(loopback_.Execute(Commit{Version(1), 1, {{Key(1), 1}}}).ok());
  EXPECT_TRUE(pulled.get().status.ok());
}

}  // namespace
}  // namespace sluice::testing

#include "worker/exchange/call_driver.h"

#include <vector>

#include "common/rpc/completion_tag.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/testing/fakes.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class CallDriverTest : public ::testing::Test {
 protected:
  CallDriverTest() { driver_.Begin(); }

  // Seconds since the beginning.
  std::vector<std::pair<int, int>> Travels() const {
    std::vector<std::pair<int, int>> seconds;
    for (const Exchange::Travel& travel : driver_.travels()) {
      seconds.emplace_back(absl::ToUnixSeconds(travel.begin),
                           absl::ToUnixSeconds(travel.end));
    }
    return seconds;
  }
  void Pass() { clock_.Advance(absl::Seconds(1)); }

  FakeClock clock_;
  CompletionLoop loop_;
  CallDriver driver_{
      {"shard 0 at a:1", "shard 1 at b:2"}, CallLimits{}, &clock_, &loop_};
};

TEST_F(CallDriverTest, FloatsTravelFromTheFirstProgressToTheEnd) {
  Pass();
  EXPECT_THAT(Travels(), IsEmpty());
  driver_.OnProgress(0, 10);
  Pass();
  driver_.OnProgress(0, 20);
  Pass();
  driver_.OnCallEnded(0, absl::OkStatus());
  Pass();
  EXPECT_THAT(Travels(), ElementsAre(Pair(1, 3)));
}

TEST_F(CallDriverTest, NothingTravelsWhileEveryCallRests) {
  driver_.OnProgress(0, 10);
  Pass();
  driver_.OnProgress(1, 10);
  driver_.OnRest(0);
  Pass();
  driver_.OnRest(1);
  Pass();
  driver_.OnProgress(0, 20);
  Pass();
  driver_.OnCallEnded(0, absl::OkStatus());
  driver_.OnCallEnded(1, absl::OkStatus());
  EXPECT_THAT(Travels(), ElementsAre(Pair(0, 2), Pair(3, 4)));
}

TEST_F(CallDriverTest, ANewRoundOfCallsForgetsWhatTravelledBefore) {
  driver_.OnProgress(0, 10);
  driver_.OnCallEnded(0, absl::OkStatus());
  driver_.OnCallEnded(1, absl::OkStatus());
  driver_.Begin();
  EXPECT_THAT(Travels(), IsEmpty());
  EXPECT_THAT(driver_.progress(), ElementsAre(0, 0));
}

// A prefetch opens its calls where the loop is served, perhaps after its pull
// has begun to wait for them.
TEST(CallDriver, OneThatIsAskedWhileItIsWaitedForMayStallToo) {
  FakeClock clock;
  CompletionLoop loop(CompletionLoop::ServedBy::kWaiter);
  CallDriver driver(
      {"shard 0 at a:1"},
      {.stall = absl::ZeroDuration(), .partition = absl::Seconds(600)}, &clock,
      &loop);
  driver.Begin();
  CancelToken cancel;
  int cancelled = -1;
  const CallDriver::Hands hands = {.repeat = [](int shard) {},
                                   .cancel =
                                       [&](int shard) {
                                         cancelled = shard;
                                         cancel.Cancel();
                                       }};
  // What is on the loop ends within Drive, in this order.
  RunOn(loop.queue(0), [&] { driver.OnAsked(0); });
  RunOn(loop.queue(0), [&] { cancel.Cancel(); });
  EXPECT_TRUE(
      absl::IsAborted(driver.Drive(absl::InfiniteFuture(), cancel, hands)));
  EXPECT_EQ(cancelled, 0);
  driver.OnCallEnded(0, absl::OkStatus());
}

}  // namespace
}  // namespace sluice

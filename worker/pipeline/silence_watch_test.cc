#include "worker/pipeline/silence_watch.h"

#include <thread>

#include "common/process/named_thread.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(SilenceWatchTest, SaysThatNothingWasHeard) {
  SilenceWatch watch(absl::Milliseconds(8));
  watch.Open();
  watch.Heard();  // Before, which one look is for.
  EXPECT_TRUE(watch.AwaitSilence());
}

TEST(SilenceWatchTest, SaysNothingOnceItIsClosed) {
  SilenceWatch watch(absl::Hours(1));
  watch.Open();
  bool silent = true;
  std::thread watcher =
      StartThread("watch", [&] { silent = watch.AwaitSilence(); });
  watch.Close();
  watcher.join();
  EXPECT_FALSE(silent);
}

TEST(SilenceWatchTest, BothEndsSaySomethingOftenEnough) {
  EXPECT_EQ(SilenceWatch(absl::Seconds(2)).beat(), absl::Milliseconds(500));
}

}  // namespace
}  // namespace sluice

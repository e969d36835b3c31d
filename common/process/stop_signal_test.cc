#include "common/process/stop_signal.h"

#include <unistd.h>

#include <csignal>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(StopSignalTest, ASignalToTheProcessIsHeardByNameAndDoesNotEndIt) {
  StopSignal::Block();
  absl::Notification heard;
  std::string name;
  StopSignal signal([&](const std::string& signal_name) {
    name = signal_name;
    heard.Notify();
  });
  kill(getpid(), SIGINT);
  ASSERT_TRUE(heard.WaitForNotificationWithTimeout(absl::Seconds(30)));
  EXPECT_EQ(name, "SIGINT");
}

TEST(StopSignalTest, WithoutASignalNothingIsHeardAtTheEnd) {
  StopSignal::Block();
  bool heard = false;
  {
    StopSignal signal([&](const std::string&) { heard = true; });
  }
  EXPECT_FALSE(heard);
}

}  // namespace
}  // namespace sluice

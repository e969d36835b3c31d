#include "common/process/stop_signal.h"

#include <unistd.h>

#include <csignal>

#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(StopSignalTest, ASignalToTheProcessIsHeardByNameAndDoesNotEndIt) {
  std::signal(SIGINT, SIG_DFL);  // Who starts the tests with & has it ignored.
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

// So a shell without job control starts what stands before `&`.
TEST(StopSignalTest, AnInterruptThatWasIgnoredBeforeStaysIgnored) {
  const sighandler_t before = std::signal(SIGINT, SIG_IGN);
  sigset_t interrupt;
  sigemptyset(&interrupt);
  sigaddset(&interrupt, SIGINT);
  pthread_sigmask(SIG_UNBLOCK, &interrupt, nullptr);
  StopSignal::Block();
  absl::Notification heard;
  std::string name;
  StopSignal signal([&](const std::string& signal_name) {
    name = signal_name;
    heard.Notify();
  });
  kill(getpid(), SIGINT);
  kill(getpid(), SIGTERM);
  ASSERT_TRUE(heard.WaitForNotificationWithTimeout(absl::Seconds(30)));
  EXPECT_EQ(name, "SIGTERM");
  std::signal(SIGINT, before);
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

#include "cli/chaos/launched_run.h"

#include <signal.h>

#include <filesystem>
#include <functional>

#include "absl/time/time.h"
#include "cli/launch/signal_wait.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;

// A launcher that is a shell script, and starts daemons that are, too.
class LaunchedRunTest : public testing::Test {
 protected:
  std::unique_ptr<LaunchedRun> Launch(const std::string& script) {
    std::filesystem::remove(log_);
    auto run = LaunchedRun::Start({"/bin/sh", "-c", script}, log_);
    EXPECT_TRUE(run.ok()) << run.status();
    return *std::move(run);
  }

  // Looks until `holds`, and says whether it did.
  bool Until(const std::function<bool()>& holds) {
    for (int looks = 0; looks < 2000; ++looks) {
      if (holds()) return true;
      signals_.WaitFor(absl::Milliseconds(10));
    }
    return false;
  }

  // Started with `flags`, which it does not look at; lives as long as the
  // launcher, unless it is killed.
  static std::string Process(const std::string& flags) {
    return "/bin/sh -c 'while kill -0 $PPID; do sleep 0.02; done' process " +
           flags + " & ";
  }
  static std::string Daemon(const std::string& flags) {
    return Process("--job=j " + flags);
  }

  const std::string log_ =
      testing::TempDir() + "/" +
      testing::UnitTest::GetInstance()->current_test_info()->name();
  SignalWait signals_;
};

TEST_F(LaunchedRunTest, PartsAreTheProcessesThatTheLauncherStarted) {
  const auto run =
      Launch(Daemon("--shard=0") + Daemon("--worker=12 --coordinator=x") +
             Daemon("--worker=12 --coordinator=x --member=1") +
             Daemon("--run-dir=/--worker=3 -- chat --worker=9") +
             Process("chat") + "wait");
  ASSERT_TRUE(Until([&] { return run->Parts().size() == 4; }));
  const std::map<std::string, pid_t> parts = run->Parts();
  EXPECT_THAT(parts, ElementsAre(Key("evaluator"), Key("ps_server-0"),
                                 Key("worker-12"), Key("worker-12.1")));
  // One that is stopped is there still; one that is dead is not, even if the
  // launcher has not noticed.
  kill(parts.at("worker-12"), SIGSTOP);
  EXPECT_EQ(run->Parts(), parts);
  kill(parts.at("ps_server-0"), SIGKILL);
  EXPECT_TRUE(Until([&] { return run->Parts().size() == 3; }));
  EXPECT_THAT(run->Parts(), testing::Contains(Key("worker-12")));
}

TEST_F(LaunchedRunTest, APartThatIsStartedAgainHasAnotherProcess) {
  const auto run =
      Launch(Daemon("--worker=0") + "wait; " + Daemon("--worker=0") + "wait");
  ASSERT_TRUE(Until([&] { return run->Parts().contains("worker-0"); }));
  const pid_t first = run->Parts().at("worker-0");
  kill(first, SIGKILL);
  EXPECT_TRUE(Until([&] {
    const auto parts = run->Parts();
    return parts.contains("worker-0") && parts.at("worker-0") != first;
  }));
}

TEST_F(LaunchedRunTest, WhatItSaysComesInWholeLines) {
  const auto run =
      Launch("echo one; echo two >&2; printf thr; exec sleep 1000");
  std::string said;
  ASSERT_TRUE(Until([&] {
    said += run->TakeOutput();
    return said.size() == 8;
  }));
  EXPECT_EQ(said, "one\ntwo\n");
  EXPECT_EQ(run->TakeOutput(), "");
}

TEST_F(LaunchedRunTest, KillingItEndsIt) {
  const auto run = Launch("kill -STOP $$");
  run->Kill();
  ASSERT_TRUE(Until([&] { return run->Poll().has_value(); }));
  EXPECT_EQ(run->Poll()->signal, SIGKILL);
  EXPECT_THAT(run->Parts(), IsEmpty());
}

}  // namespace
}  // namespace sluice

#include "cli/launch/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <sstream>

#include "cli/launch/signal_wait.h"
#include "common/process/process_setup.h"

namespace sluice {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(20);

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

class ChildProcessTest : public testing::Test {
 protected:
  std::unique_ptr<ChildProcess> Shell(const std::string& script) {
    auto child = ChildProcess::Start({"/bin/sh", "-c", script}, log_);
    EXPECT_TRUE(child.ok()) << child.status().message().data();
    return *std::move(child);
  }

  // SIGCHLD says when to look again.
  ChildExit End(ChildProcess* child) {
    for (int looks = 0; looks < 100; ++looks) {
      if (auto exit = child->Poll()) return *exit;
      signals_.WaitFor(kPatience);
    }
    ADD_FAILURE() << "the child did not end";
    return {};
  }

  // Waits until the child has written `text`.
  void AwaitLog(const std::string& text) {
    for (int looks = 0; looks < 2000; ++looks) {
      if (Read(log_).find(text) != std::string::npos) return;
      signals_.WaitFor(absl::Milliseconds(10));
    }
    ADD_FAILURE() << "no " << text << " in the log";
  }

  SignalWait signals_;
  const std::string log_ =
      testing::TempDir() + "/" +
      testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(ChildProcessTest, ItsOutputGoesToItsLogAndItsStatusComesBack) {
  auto child = Shell("echo out; echo err >&2; exit 3");
  const ChildExit exit = End(child.get());
  EXPECT_FALSE(exit.ok());
  EXPECT_EQ(exit.ToString(), "exit status 3");
  EXPECT_EQ(Read(log_), "out\nerr\n");
}

TEST_F(ChildProcessTest, ASignalThatEndsItIsNamed) {
  auto child = Shell("kill -KILL $$");
  EXPECT_EQ(End(child.get()).ToString(), "killed by signal 9 (Killed)");
}

TEST_F(ChildProcessTest, OneThatSomebodyElseHasReapedHasEnded) {
  auto child = Shell("exit 3");
  waitpid(child->pid(), nullptr, 0);
  const auto exit = child->Poll();
  ASSERT_TRUE(exit.has_value());
  EXPECT_FALSE(exit->ok());
  EXPECT_EQ(exit->ToString(), "exit status unknown");
}

TEST_F(ChildProcessTest, AProgramThatIsNotThereIsNamed) {
  auto child = ChildProcess::Start({"/nowhere/program"}, log_);
  ASSERT_FALSE(child.ok());
  EXPECT_THAT(std::string(child.status().message()),
              testing::HasSubstr("/nowhere/program: No such file"));
}

TEST_F(ChildProcessTest, ALogThatCannotBeWrittenIsNamed) {
  auto child = ChildProcess::Start({"/bin/true"}, "/nowhere/log");
  ASSERT_FALSE(child.ok());
  EXPECT_THAT(std::string(child.status().message()),
              testing::HasSubstr("/nowhere/log: No such file"));
}

TEST_F(ChildProcessTest, NothingIsLeftOfADestroyedChild) {
  auto child = Shell("echo up; exec sleep 1000");
  AwaitLog("up");
  const pid_t pid = child->pid();
  child.reset();
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST_F(ChildProcessTest, AnInterruptOfTheTerminalDoesNotReachIt) {
  auto child = Shell("echo up; exec sleep 1000");
  EXPECT_EQ(getpgid(child->pid()), child->pid());
  EXPECT_NE(getpgid(child->pid()), getpgid(0));
}

TEST_F(ChildProcessTest, TheSignalsItsParentBlocksReachIt) {
  auto child = Shell("echo up; exec sleep 1000");
  AwaitLog("up");
  child->Signal(SIGTERM);
  EXPECT_EQ(End(child.get()).signal, SIGTERM);
}

TEST_F(ChildProcessTest, AHangUpReachesItEvenIfItsParentIgnoresThem) {
  const sighandler_t before = signal(SIGHUP, SIG_IGN);
  auto child = Shell("echo up; exec sleep 1000");
  signal(SIGHUP, before);
  AwaitLog("up");
  child->Signal(SIGHUP);
  EXPECT_EQ(End(child.get()).signal, SIGHUP);
}

TEST_F(ChildProcessTest, ABrokenPipeEndsItEvenIfItsParentIgnoresThem) {
  SetUpProcess();
  auto child = Shell("kill -PIPE $$; exec sleep 1000");
  EXPECT_EQ(End(child.get()).signal, SIGPIPE);
}

TEST_F(ChildProcessTest, ItDiesWithAKilledParent) {
  const pid_t parent = fork();
  if (parent == 0) {
    auto child = ChildProcess::Start(
        {"/bin/sh", "-c", "echo pid $$; exec sleep 1000"}, log_);
    for (;;) pause();
  }
  AwaitLog("pid ");
  const pid_t child = std::stoi(Read(log_).substr(4));
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  // Whoever inherited it reaps it; a zombie is dead as well.
  for (int looks = 0; looks < 2000; ++looks) {
    const std::string stat = Read("/proc/" + std::to_string(child) + "/stat");
    if (stat.empty() || stat.find(") Z") != std::string::npos) return;
    signals_.WaitFor(absl::Milliseconds(10));
  }
  ADD_FAILURE() << "process " << child << " is still there";
}

}  // namespace
}  // namespace sluice

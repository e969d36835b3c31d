#include "worker/external/subprocess.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "common/process/process_setup.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using testing::HasSubstr;

constexpr absl::Duration kPatience = absl::Seconds(30);

// A process and the other end of its socket.
class SubprocessTest : public testing::Test {
 protected:
  SubprocessTest() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends_), 0);
    const timeval patience = {.tv_sec = 30, .tv_usec = 0};
    setsockopt(ends_[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  ~SubprocessTest() override {
    close(ends_[0]);
    close(ends_[1]);
  }

  std::unique_ptr<Subprocess> Start(const std::vector<std::string>& command) {
    auto process = Subprocess::Start(command, ends_[1], "TEST_SOCKET");
    EXPECT_TRUE(process.ok()) << process.status().message().data();
    return *std::move(process);
  }
  std::unique_ptr<Subprocess> Shell(const std::string& script) {
    return Start({"sh", "-c", script});
  }
  // A packet that the process writes.
  std::string Hear() {
    char text[256] = {};
    EXPECT_GT(recv(ends_[0], text, sizeof text - 1, 0), 0);
    return text;
  }

  int ends_[2];
};

TEST_F(SubprocessTest, TheVariableNamesTheSocketAndNothingElseIsOpen) {
  auto process = Shell("exec ls /proc/self/fd >&$TEST_SOCKET");
  EXPECT_EQ(Hear(), "0\n1\n2\n3\n4\n");  // With 4 `ls` reads the folder.
}

TEST_F(SubprocessTest, DefaultsAreForVariablesThatAreNotSet) {
  setenv("TEST_SET", "here=already", 1);
  const auto process = Subprocess::Start(
      {"sh", "-c", "echo $TEST_SET $TEST_UNSET >&$TEST_SOCKET"}, ends_[1],
      "TEST_SOCKET", {{"TEST_SET", "1"}, {"TEST_UNSET", "2"}});
  EXPECT_EQ(Hear(), "here=already 2\n");
}

TEST_F(SubprocessTest, ItHasNoInput) {
  auto process = Shell("cat; echo at the end >&$TEST_SOCKET");
  EXPECT_EQ(Hear(), "at the end\n");
}

TEST_F(SubprocessTest, HowItEndedIsSaid) {
  auto exits = Shell("exit 3");
  ASSERT_TRUE(exits->AwaitEnd(kPatience));
  EXPECT_EQ(exits->how_it_ended(), "ended with exit status 3");
  auto killed = Shell("kill -TERM $$");
  ASSERT_TRUE(killed->AwaitEnd(kPatience));
  EXPECT_EQ(killed->how_it_ended(), "was killed by signal 15");
}

TEST_F(SubprocessTest, OneThatRunsHasNotEnded) {
  auto process = Shell("echo up >&$TEST_SOCKET; sleep 1000");
  Hear();
  EXPECT_FALSE(process->AwaitEnd(absl::Milliseconds(1)));
}

TEST_F(SubprocessTest, ItIsCalledByItsNumberAndItsCommand) {
  auto process = Start({"sleep", "1000"});
  EXPECT_EQ(process->name(),
            "(pid " + std::to_string(process->pid()) + ", sleep 1000)");
}

TEST_F(SubprocessTest, AProgramThatCannotBeRunIsNamedWithTheReason) {
  for (const auto& [program, reason] :
       {std::pair{"no-such-program", "No such file"},
        {"/nowhere/program", "No such file"},
        {"/etc/passwd", "Permission denied"}}) {
    const auto process = Subprocess::Start({program}, ends_[1], "TEST_SOCKET");
    ASSERT_FALSE(process.ok());
    EXPECT_EQ(process.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(
        std::string(process.status().message()),
        HasSubstr(std::string("cannot run ") + program + ": " + reason));
  }
}

TEST_F(SubprocessTest, NothingIsLeftOfADestroyedOneOrOfWhatItStarted) {
  auto process = Shell("sleep 1000 & echo $! >&$TEST_SOCKET; wait");
  const pid_t grandchild = std::stoi(Hear());
  const pid_t child = process->pid();
  process.reset();
  EXPECT_EQ(kill(child, 0), -1);
  // The end of the socket says when the grandchild, too, is gone.
  close(ends_[1]);
  ends_[1] = -1;
  char byte;
  EXPECT_EQ(recv(ends_[0], &byte, 1, 0), 0) << grandchild;
}

TEST_F(SubprocessTest, TheSignalsThatItsParentBlocksReachIt) {
  sigset_t term, before;
  sigemptyset(&term);
  sigaddset(&term, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &term, &before);
  auto process = Shell("echo up >&$TEST_SOCKET; exec sleep 1000");
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  Hear();
  kill(process->pid(), SIGTERM);
  ASSERT_TRUE(process->AwaitEnd(kPatience));
  EXPECT_EQ(process->how_it_ended(), "was killed by signal 15");
}

TEST_F(SubprocessTest, ASignalThatThisProcessIgnoresHasItsUsualEffectThere) {
  SetUpProcess();
  auto process = Shell("kill -PIPE $$; exec sleep 1000");
  ASSERT_TRUE(process->AwaitEnd(kPatience));
  EXPECT_EQ(process->how_it_ended(), "was killed by signal 13");
}

TEST_F(SubprocessTest, ItHasAProcessGroupOfItsOwn) {
  auto process = Start({"sleep", "1000"});
  EXPECT_EQ(getpgid(process->pid()), process->pid());
}

TEST_F(SubprocessTest, ItDiesWithAKilledParent) {
  const pid_t parent = fork();
  if (parent == 0) {
    auto process = Start({"sh", "-c", "echo up >&3; exec sleep 1000"});
    for (;;) pause();
  }
  close(ends_[1]);
  ends_[1] = -1;
  Hear();
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  char byte;
  EXPECT_EQ(recv(ends_[0], &byte, 1, 0), 0);  // Nobody holds the other end.
}

}  // namespace
}  // namespace sluice

#include "common/process/process_setup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>
#include <stdexcept>
#include <string>
#include <thread>

#include "common/process/ignored_signal.h"

namespace sluice {
namespace {

TEST(ProcessSetupTest, ChildrenAreReapedByTheirParent) {
  signal(SIGCHLD, SIG_IGN);
  SetUpProcess();
  EXPECT_FALSE(IsIgnored(SIGCHLD));
}

TEST(ProcessSetupTest, APipeThatNobodyReadsAndAFileThatIsTooLargeAreErrors) {
  SetUpProcess();
  EXPECT_TRUE(IsIgnored(SIGPIPE));
  EXPECT_TRUE(IsIgnored(SIGXFSZ));
}

TEST(ProcessSetupTest, ClosedStandardStreamsLeadNowhere) {
  const pid_t child = fork();
  if (child == 0) {
    for (const int stream : {0, 1, 2}) close(stream);
    SetUpProcess();
    char byte;
    const bool nowhere = read(0, &byte, 1) == 0 && write(1, "a", 1) == 1 &&
                         write(2, "a", 1) == 1 && dup(0) > 2;
    _exit(nowhere ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

TEST(ProcessSetupTest, AStandardStreamThatIsOpenStaysAsItIs) {
  int pipe_ends[2];
  ASSERT_EQ(pipe(pipe_ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipe_ends[1], 1);
    close(0);
    SetUpProcess();
    _exit(write(1, "a", 1) == 1 ? 0 : 1);
  }
  close(pipe_ends[1]);
  char byte = 0;
  EXPECT_EQ(read(pipe_ends[0], &byte, 1), 1);
  waitpid(child, nullptr, 0);
}

// What a process says that ends by `exception`.
template <typename Exception>
std::string SaidAtTheEndBy(const Exception& exception) {
  testing::internal::CaptureStderr();
  const pid_t child = fork();
  if (child == 0) {
    SetUpProcess();
    std::thread([&] { throw exception; }).join();
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGABRT);
  return testing::internal::GetCapturedStderr();
}

TEST(ProcessSetupTest, WhereMemoryIsShortAProcessSaysSo) {
  EXPECT_THAT(SaidAtTheEndBy(std::bad_alloc()),
              testing::StartsWith("event=out_of_memory error=\"no memory"));
}

TEST(ProcessSetupTest, OfAnyOtherExceptionAProcessSaysWhatItIs) {
  EXPECT_THAT(SaidAtTheEndBy(std::runtime_error("a fault")),
              testing::HasSubstr("a fault"));
}

}  // namespace
}  // namespace sluice

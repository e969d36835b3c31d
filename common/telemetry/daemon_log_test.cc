#include "common/telemetry/daemon_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "absl/time/time.h"
#include "common/clock.h"
#include "third_party/spdlog.h"

namespace sluice {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string Read(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Waits until `path` has `text`.
void Await(const std::string& path, const std::string& text) {
  constexpr int kBetweenLooksMs = 10;
  for (int looks = 0; looks < 2000; ++looks) {
    if (Read(path).find(text) != std::string::npos) return;
    poll(nullptr, 0, kBetweenLooksMs);
  }
  ADD_FAILURE() << "no " << text << " in " << path << ": " << Read(path);
}

// Each log is tested in a child process, because it takes over stdout and
// stderr.
class DaemonLogTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override {
    if (child_ > 0) kill(child_, SIGKILL);
    if (child_ > 0) waitpid(child_, nullptr, 0);
  }

  // A process that logs to `file_`. Its original stderr is the file `early_`.
  void Start(sighandler_t on_hang_up = SIG_DFL) {
    child_ = fork();
    if (child_ != 0) return;
    signal(SIGHUP, on_hang_up);
    setenv("TZ", "Asia/Kolkata", 1);
    if (freopen(early_.c_str(), "a", stderr) == nullptr) _exit(1);
    DaemonLog log("test", file_, /*debug=*/false);
    spdlog::info("event=said text=\"{}\"", "a\nforged\x1b[1m");
    spdlog::info("event=began");
    for (;;) pause();
  }

  // The exit status of the process.
  int End() {
    int status = 0;
    waitpid(child_, &status, 0);
    child_ = 0;
    return status;
  }

  const std::string folder_ =
      testing::TempDir() + "/" +
      testing::UnitTest::GetInstance()->current_test_info()->name();
  std::string file_ = folder_ + "/daemon.log";
  const std::string early_ = folder_ + "/stderr";
  const std::string moved_ = folder_ + "/daemon.log.1";
  pid_t child_ = 0;
};

TEST_F(DaemonLogTest, AnEventIsOneLineWhateverStandsInIt) {
  Start();
  Await(file_, "event=began");
  EXPECT_THAT(Read(file_), HasSubstr(" text=\"a\\nforged\\x1b[1m\"\n"));
}

TEST_F(DaemonLogTest, TimesAreInUtcAndSaySo) {
  const absl::Time before = Clock::Real()->Now() - absl::Seconds(1);
  Start();
  Await(file_, "event=began");
  const std::string line = Read(file_);
  const std::string stamp = line.substr(0, line.find(' '));
  ASSERT_EQ(stamp.size(), std::string("2024-05-01T12:00:00.123Z").size());
  absl::Time when;
  std::string error;
  ASSERT_TRUE(absl::ParseTime(absl::RFC3339_full, stamp, &when, &error))
      << stamp << ": " << error;
  EXPECT_GE(when, before);
  EXPECT_LE(when, Clock::Real()->Now());
}

TEST_F(DaemonLogTest, AHangUpOpensTheFileAnewWithTheModeOfTheOneBefore) {
  Start();
  Await(file_, "event=began");
  ASSERT_EQ(chmod(file_.c_str(), 0640), 0);
  std::filesystem::rename(file_, moved_);
  kill(child_, SIGHUP);
  Await(file_, "event=log_reopened");
  EXPECT_THAT(Read(file_), Not(HasSubstr("event=began")));
  EXPECT_THAT(Read(moved_), Not(HasSubstr("event=log_reopened")));
  struct stat now = {};
  ASSERT_EQ(stat(file_.c_str(), &now), 0);
  EXPECT_EQ(now.st_mode & 0777, 0640);
}

TEST_F(DaemonLogTest, AFileThatCannotBeOpenedAnewIsNamedInTheOneBefore) {
  Start();
  Await(file_, "event=began");
  std::filesystem::rename(file_, moved_);
  std::filesystem::create_directory(file_);
  kill(child_, SIGHUP);
  Await(moved_,
        "event=log_not_opened file=\"" + file_ + "\" error=\"Is a directory\"");
}

TEST_F(DaemonLogTest, AFileThatCannotBeOpenedLeavesTheLogOnStderr) {
  file_ = folder_ + "/nowhere/daemon.log";
  Start();
  Await(early_, "event=began");
  EXPECT_THAT(Read(early_), HasSubstr("event=log_not_opened file=\"" + file_ +
                                      "\" error=\"No such file"));
}

TEST_F(DaemonLogTest, AHangUpThatWasIgnoredAtTheStartStaysIgnored) {
  Start(SIG_IGN);
  Await(file_, "event=began");
  std::filesystem::rename(file_, moved_);
  kill(child_, SIGHUP);
  kill(child_, SIGTERM);
  EXPECT_EQ(WTERMSIG(End()), SIGTERM);
  EXPECT_FALSE(std::filesystem::exists(file_));
}

TEST_F(DaemonLogTest, WithoutAFileAHangUpEndsTheProcess) {
  file_ = "";
  Start();
  Await(early_, "event=began");
  kill(child_, SIGHUP);
  EXPECT_EQ(WTERMSIG(End()), SIGHUP);
}

}  // namespace
}  // namespace sluice

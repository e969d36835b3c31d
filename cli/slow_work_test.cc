#include "cli/slow_work.h"

#include <signal.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::MatchesRegex;

// What is said, from the thread that says it.
class Said {
 public:
  void Add(const std::string& line) {
    absl::MutexLock lock(&mu_);
    lines_.push_back(line);
  }
  // Waits for line `i`.
  std::string Line(size_t i) {
    absl::MutexLock lock(&mu_);
    const auto there = [this, i] { return lines_.size() > i; };
    mu_.Await(absl::Condition(&there));
    return lines_[i];
  }
  size_t count() {
    absl::MutexLock lock(&mu_);
    return lines_.size();
  }

 private:
  absl::Mutex mu_;
  std::vector<std::string> lines_;
};

SlowWork::Options Saying(Said* said, absl::Duration pause) {
  return {.first = pause, .every = pause, .say = [said](const auto& line) {
            said->Add(line);
          }};
}

TEST(SlowWorkTest, WorkThatTakesLongIsSaidToGoOnAgainAndAgain) {
  Said said;
  const SlowWork work("ledger", "", Saying(&said, absl::Milliseconds(1)));
  EXPECT_THAT(said.Line(0), MatchesRegex("ledger: [0-9]+ s, [0-9]+ MB read"));
  EXPECT_THAT(said.Line(1), MatchesRegex("ledger: [0-9]+ s, [0-9]+ MB read"));
}

TEST(SlowWorkTest, ItSaysForWhomItWaits) {
  Said said;
  SlowWork work("stop", "version", Saying(&said, absl::Milliseconds(1)));
  work.At(166, "shard 1");
  EXPECT_THAT(said.Line(said.count() + 1),
              MatchesRegex("stop: [0-9]+ s, version 166, waiting for shard 1"));
  work.At(167);
  EXPECT_THAT(said.Line(said.count() + 1),
              MatchesRegex("stop: [0-9]+ s, version 167"));
}

TEST(SlowWorkTest, ItSaysHowFarItIs) {
  Said said;
  SlowWork work("simulate", "update", Saying(&said, absl::Milliseconds(1)));
  work.At(1200);
  // One line may have been on its way.
  EXPECT_THAT(said.Line(said.count() + 1),
              MatchesRegex("simulate: [0-9]+ s, update 1200"));
}

TEST(SlowWorkTest, WorkThatIsOverInTimeSaysNothingAndWaitsForNothing) {
  Said said;
  { const SlowWork work("status", "", Saying(&said, absl::Hours(1))); }
  EXPECT_EQ(said.count(), 0);
}

TEST(SlowWorkTest, ASignalReachesWhoWaitsForItLater) {
  const SlowWork slow("plot");
  sigset_t signals, before;
  sigemptyset(&signals);
  sigaddset(&signals, SIGUSR1);  // Ends the process where a thread takes it.
  pthread_sigmask(SIG_BLOCK, &signals, &before);
  ASSERT_EQ(kill(getpid(), SIGUSR1), 0);
  int came = 0;
  EXPECT_EQ(sigwait(&signals, &came), 0);
  EXPECT_EQ(came, SIGUSR1);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace
}  // namespace sluice

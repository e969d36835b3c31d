#include "worker/pipeline/turns.h"

#include <string>
#include <thread>

#include "absl/synchronization/notification.h"
#include "common/process/named_thread.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// What the tasks of a process did, in order.
class Record {
 public:
  void Add(const std::string& what) {
    absl::MutexLock lock(&mu_);
    text_ += what;
  }
  std::string text() {
    absl::MutexLock lock(&mu_);
    return text_;
  }
  void AwaitEnd(const std::string& end) {
    const auto there = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
      return text_.size() >= end.size() &&
             text_.substr(text_.size() - end.size()) == end;
    };
    absl::MutexLock lock(&mu_);
    mu_.Await(absl::Condition(&there));
  }

 private:
  absl::Mutex mu_;
  std::string text_ ABSL_GUARDED_BY(mu_);
};

TEST(TurnsTest, ATaskComputesWhileAnotherWaits) {
  Turns turns;
  Record record;
  absl::Notification arrived;
  std::thread first = StartThread("slot 0", [&] {
    SlotTurn turn(&turns);
    CancelToken never;
    TaskProgress progress;
    turn.In(never, &progress, [&] {
      record.Add("a");
      turn.Away([&] {
        arrived.WaitForNotification();
        return 0;
      });
      record.Add("A");
      return 0;
    });
  });
  record.AwaitEnd("a");
  SlotTurn turn(&turns);
  CancelToken never;
  TaskProgress progress;
  EXPECT_EQ(turn.In(never, &progress,
                    [&] {
                      record.Add("b");
                      return 7;
                    }),
            7);
  arrived.Notify();
  first.join();
  EXPECT_EQ(record.text(), "abA");
}

TEST(TurnsTest, OneComputesAndTheOldestIsNext) {
  Turns turns;
  Record record;
  const int64_t oldest = turns.Begin();
  const int64_t younger = turns.Begin();
  const int64_t youngest = turns.Begin();
  CancelToken never;
  ASSERT_TRUE(turns.Take(younger, never));
  const auto wait = [&](int64_t task, const std::string& name) {
    return StartThread("slot", [&, task, name] {
      EXPECT_TRUE(turns.Take(task, never));
      record.Add(name);
      turns.Give();
    });
  };
  std::thread last = wait(youngest, "2");
  std::thread first = wait(oldest, "0");
  while (turns.waiting() < 2) std::this_thread::yield();
  EXPECT_EQ(record.text(), "");
  turns.Give();
  first.join();
  last.join();
  EXPECT_EQ(record.text(), "02");
}

TEST(TurnsTest, WhoIsCancelledWaitsNoLonger) {
  Turns turns;
  const int64_t first = turns.Begin();
  const int64_t second = turns.Begin();
  CancelToken never, cancel;
  ASSERT_TRUE(turns.Take(first, never));
  std::thread waits =
      StartThread("slot", [&] { EXPECT_FALSE(turns.Take(second, cancel)); });
  while (turns.waiting() < 1) std::this_thread::yield();
  cancel.Cancel();
  turns.Wake();
  waits.join();
  // The first one has it still.
  EXPECT_FALSE(turns.TryTake(second));
  turns.Give();
  EXPECT_TRUE(turns.TryTake(second));
}

}  // namespace
}  // namespace sluice

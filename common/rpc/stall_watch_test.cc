#include "common/rpc/stall_watch.h"

#include <grpcpp/completion_queue.h>

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/clock.h"
#include "common/rpc/completion_tag.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr absl::Duration kMost = absl::Milliseconds(10);

class ManualClock : public Clock {
 public:
  absl::Time Now() override { return now_; }
  void Advance(int64_t ms) { now_ += absl::Milliseconds(ms); }

 private:
  absl::Time now_ = absl::UnixEpoch();
};

class StallWatchTest : public testing::Test {
 protected:
  class Call : public StallWatch::Watched {
   public:
    Call(std::string name, std::vector<std::string>* stalled)
        : name_(std::move(name)), stalled_(*stalled) {}

   private:
    void OnStalled(absl::Duration silent) override {
      stalled_.push_back(name_ + " " + absl::FormatDuration(silent));
    }
    const std::string name_;
    std::vector<std::string>& stalled_;
  };

  StallWatchTest() { watch_.Use(&queue_); }
  ~StallWatchTest() override {
    watch_.Stop();
    queue_.Shutdown();
    ServeQueue(&queue_);
  }

  // Waits until the alarm has rung.
  void Ring() {
    void* tag = nullptr;
    bool ok = false;
    ASSERT_TRUE(queue_.Next(&tag, &ok));
    static_cast<CompletionTag*>(tag)->Complete(ok);
  }

  ManualClock clock_;
  grpc::CompletionQueue queue_;
  StallWatch watch_{&clock_, kMost};
  std::vector<std::string> stalled_;
  Call a_{"a", &stalled_};
  Call b_{"b", &stalled_};
};

TEST_F(StallWatchTest, WhoSaysNothingForSoLongIsTold) {
  watch_.Begin(&a_);
  clock_.Advance(10);
  Ring();
  EXPECT_THAT(stalled_, ElementsAre("a 10ms"));
}

TEST_F(StallWatchTest, ProgressBeginsTheTimeAnew) {
  watch_.Begin(&a_);
  clock_.Advance(4);
  watch_.Begin(&b_);
  clock_.Advance(4);
  watch_.Begin(&a_);
  clock_.Advance(2);
  Ring();  // It was set for a's begin.
  EXPECT_THAT(stalled_, IsEmpty());
  clock_.Advance(4);
  Ring();
  EXPECT_THAT(stalled_, ElementsAre("b 10ms"));
  clock_.Advance(4);
  Ring();
  EXPECT_THAT(stalled_, ElementsAre("b 10ms", "a 10ms"));
}

TEST_F(StallWatchTest, AllThatAreDueAreToldAtOnce) {
  watch_.Begin(&a_);
  watch_.Begin(&b_);
  clock_.Advance(12);
  Ring();
  EXPECT_THAT(stalled_, ElementsAre("a 12ms", "b 12ms"));
}

TEST_F(StallWatchTest, WhoHasEndedIsNotTold) {
  watch_.Begin(&a_);
  watch_.End(&a_);
  watch_.End(&a_);
  clock_.Advance(10);
  Ring();
  EXPECT_THAT(stalled_, IsEmpty());
  // The next one is watched by an alarm of its own.
  watch_.Begin(&b_);
  clock_.Advance(10);
  Ring();
  EXPECT_THAT(stalled_, ElementsAre("b 10ms"));
}

TEST_F(StallWatchTest, AfterStopNobodyIsTold) {
  watch_.Begin(&a_);
  watch_.Stop();
  clock_.Advance(10);
  Ring();  // Cancelled.
  watch_.Begin(&b_);
  EXPECT_THAT(stalled_, IsEmpty());
}

}  // namespace
}  // namespace sluice

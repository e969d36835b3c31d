#include "worker/task/task_inbox.h"

#include <thread>

#include "common/key_proto.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

// Far longer than any test takes: a wait that lasts so long is a failure.
constexpr absl::Duration kLong = absl::Seconds(30);

proto::Key Key(int64_t sequence) {
  return KeyToProto(
      {Generation(1), WorkerId(3), Incarnation(1), Sequence(sequence)});
}
proto::FromCoordinator TaskMessage(int64_t sequence) {
  proto::FromCoordinator message;
  *message.mutable_task()->mutable_key() = Key(sequence);
  return message;
}
proto::FromCoordinator CancelMessage(int64_t sequence) {
  proto::FromCoordinator message;
  *message.mutable_cancel()->mutable_key() = Key(sequence);
  message.mutable_cancel()->set_reason("version 5 was committed");
  return message;
}
proto::FromCoordinator FinishMessage(const std::string& failure) {
  proto::FromCoordinator message;
  message.mutable_finish()->set_failure(failure);
  return message;
}

class TaskInboxTest : public ::testing::Test {
 protected:
  TaskInboxTest() {
    inbox_.set_wake([this] { ++wakes_; });
  }

  int wakes_ = 0;
  SharedCounters<WorkerCounters> counters_;
  TaskInbox inbox_{&counters_};
};

TEST_F(TaskInboxTest, ATaskReachesTheThreadThatWaitsForIt) {
  std::thread reader([this] { inbox_.Receive(TaskMessage(1)); });
  const auto task = inbox_.Next(kLong);
  reader.join();
  ASSERT_TRUE(task.has_value());
  EXPECT_EQ(task->key().sequence(), 1);
}

TEST_F(TaskInboxTest, ACancelSetsTheTokenThenWakesAndSaysWhy) {
  inbox_.Receive(TaskMessage(1));
  ASSERT_TRUE(inbox_.Next(kLong).has_value());
  EXPECT_FALSE(inbox_.token().cancelled());
  inbox_.Receive(CancelMessage(1));
  EXPECT_TRUE(inbox_.token().cancelled());
  EXPECT_EQ(wakes_, 1);
  EXPECT_EQ(inbox_.cancel_reason(), "version 5 was committed");
}

TEST_F(TaskInboxTest, TheNextTaskBeginsWithAFreshToken) {
  inbox_.Receive(TaskMessage(1));
  ASSERT_TRUE(inbox_.Next(kLong).has_value());
  inbox_.Receive(CancelMessage(1));
  inbox_.Done();
  inbox_.Receive(TaskMessage(2));
  ASSERT_TRUE(inbox_.Next(kLong).has_value());
  EXPECT_FALSE(inbox_.token().cancelled());
  inbox_.Receive(CancelMessage(1));
  EXPECT_FALSE(inbox_.token().cancelled());
}

TEST_F(TaskInboxTest, FinishEndsTheWaitAndCancelsWhatRuns) {
  inbox_.Receive(TaskMessage(1));
  ASSERT_TRUE(inbox_.Next(kLong).has_value());
  inbox_.Receive(FinishMessage("shard 1 died"));
  EXPECT_TRUE(inbox_.token().cancelled());
  EXPECT_EQ(wakes_, 1);
  inbox_.Done();
  EXPECT_FALSE(inbox_.Next(kLong).has_value());
  EXPECT_TRUE(inbox_.closed());
  ASSERT_TRUE(inbox_.finish().has_value());
  EXPECT_EQ(inbox_.finish()->failure(), "shard 1 died");
}

TEST_F(TaskInboxTest, ClosingEndsWhatRunsAndWhatWaitsAndTakesNoMore) {
  inbox_.Receive(TaskMessage(1));
  ASSERT_TRUE(inbox_.Next(kLong).has_value());
  inbox_.Receive(TaskMessage(2));
  inbox_.Close("the session has ended");
  EXPECT_TRUE(inbox_.token().cancelled());
  EXPECT_EQ(wakes_, 1);
  EXPECT_EQ(inbox_.cancel_reason(), "the session has ended");
  inbox_.Done();
  inbox_.Receive(TaskMessage(3));
  EXPECT_FALSE(inbox_.Next(absl::ZeroDuration()).has_value());
  EXPECT_EQ(counters_.Get().cancelled_unstarted, 1);
}

TEST_F(TaskInboxTest, VerdictsAreCountedByOutcomeAndUnknownOnesIgnored) {
  proto::FromCoordinator message;
  message.mutable_verdict()->set_outcome(proto::DROPPED);
  inbox_.Receive(message);
  inbox_.Receive(message);
  message.mutable_verdict()->set_outcome(static_cast<proto::Outcome>(99));
  inbox_.Receive(message);
  EXPECT_EQ(counters_.Get().dropped, 2);
  EXPECT_EQ(counters_.Get().applied, 0);
}

}  // namespace
}  // namespace sluice

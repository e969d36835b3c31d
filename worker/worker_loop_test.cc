#include "worker/worker_loop.h"

#include <utility>
#include <vector>

#include "common/key_proto.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/compute/native_gradient.h"
#include "worker/testing/fakes.h"

namespace sluice {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

proto::Key Key(int64_t sequence) {
  return KeyToProto(
      {Generation(1), WorkerId(3), Incarnation(1), Sequence(sequence)});
}

// One thread plays both: what would come from the session comes from the
// hooks of the fakes.
class WorkerLoopTest : public ::testing::Test {
 protected:
  WorkerLoopTest() { exchange_.weights = {1, 2, 3, 4}; }

  static Trainer::Options Options(Clock* clock) {
    Trainer::Options options;
    options.clock = clock;
    return options;
  }
  static NativeGradient::Options GradientOptions() {
    NativeGradient::Options options;
    options.sampling = {.seed = 1,
                        .train_samples = 8,
                        .batch_size = 4,
                        .shuffle = false,
                        .partitions = 1};
    options.parameters = 4;
    return options;
  }
  void ReceiveTask(int64_t sequence) {
    proto::FromCoordinator message;
    *message.mutable_task()->mutable_key() = Key(sequence);
    message.mutable_task()->set_batches(1);
    inbox_.Receive(message);
  }
  void ReceiveCancel(int64_t sequence) {
    proto::FromCoordinator message;
    *message.mutable_cancel()->mutable_key() = Key(sequence);
    inbox_.Receive(message);
  }

  FakeClock clock_;
  FakeDataSource data_{8};
  FakeModel model_;
  FakeExchange exchange_;
  SharedCounters<WorkerCounters> counters_;
  TaskInbox inbox_{&counters_};
  NativeGradient gradient_{GradientOptions(), &data_, model_.get()};
  Trainer trainer_{Options(&clock_), &gradient_, &exchange_};
  std::vector<proto::ToCoordinator> sent_;
  // Called after each message that is sent.
  std::function<void()> after_send_ = [this] { inbox_.Close("test is over"); };
  WorkerLoop loop_{"127.0.0.1:1", &inbox_, &trainer_, &counters_,
                   [this](proto::ToCoordinator message) {
                     sent_.push_back(std::move(message));
                     after_send_();
                   }};
};

TEST_F(WorkerLoopTest, EachDeliveredGradientIsReportedOnce) {
  after_send_ = [this] {
    if (sent_.size() == 2) inbox_.Close("test is over");
  };
  ReceiveTask(1);
  ReceiveTask(2);
  ASSERT_TRUE(loop_.Run().ok());
  ASSERT_THAT(sent_, SizeIs(2));
  EXPECT_EQ(sent_[0].ready().key().sequence(), 1);
  EXPECT_EQ(sent_[1].ready().key().sequence(), 2);
  EXPECT_EQ(counters_.Get().gradients_delivered, 2);
}

TEST_F(WorkerLoopTest, WhatTravelledWithTheGradientIsNotReportedAgain) {
  exchange_.lead = true;
  exchange_.on_finish_push = [this] {
    if (exchange_.brought->key().sequence() == 2) inbox_.Close("test is over");
  };
  ReceiveTask(1);
  ReceiveTask(2);
  ASSERT_TRUE(loop_.Run().ok());
  EXPECT_THAT(sent_, IsEmpty());
  EXPECT_EQ(counters_.Get().gradients_delivered, 2);
}

TEST_F(WorkerLoopTest, WhatOverflowedBeforeItWasDeliveredIsCounted) {
  model_->on_forward = [this] {
    model_->overflows = counters_.Get().tasks_started == 1 ? 3 : 0;
  };
  after_send_ = [this] {
    if (sent_.size() == 2) inbox_.Close("test is over");
  };
  ReceiveTask(1);
  ReceiveTask(2);
  ASSERT_TRUE(loop_.Run().ok());
  EXPECT_EQ(counters_.Get().loss_overflows, 3);
  EXPECT_EQ(counters_.Get().gradients_delivered, 2);
}

TEST_F(WorkerLoopTest, ACancelledTaskIsCountedAndTheNextOneRuns) {
  model_->on_forward = [this] {
    if (counters_.Get().tasks_started == 1) ReceiveCancel(1);
  };
  ReceiveTask(1);
  ReceiveTask(2);
  ASSERT_TRUE(loop_.Run().ok());
  ASSERT_THAT(sent_, SizeIs(1));
  EXPECT_EQ(sent_[0].ready().key().sequence(), 2);
  EXPECT_EQ(counters_.Get().tasks_started, 2);
  EXPECT_EQ(counters_.Get().tasks_cancelled, 1);
}

TEST_F(WorkerLoopTest, ACancelSavesTheComputationThatWasLeft) {
  // A whole task computes 2 + 4 seconds.
  model_->on_forward = [this] {
    clock_.Advance(absl::Seconds(2));
    if (counters_.Get().tasks_started == 2) ReceiveCancel(2);
  };
  model_->on_backward = [this] { clock_.Advance(absl::Seconds(4)); };
  after_send_ = [this] {
    if (sent_.size() == 2) inbox_.Close("test is over");
  };
  for (int sequence = 1; sequence <= 3; ++sequence) ReceiveTask(sequence);
  ASSERT_TRUE(loop_.Run().ok());
  EXPECT_EQ(counters_.Get().compute_microseconds, (6 + 2 + 6) * 1000000);
  EXPECT_EQ(counters_.Get().saved_microseconds, 4 * 1000000);
}

TEST_F(WorkerLoopTest, ARejectedGradientIsReportedWithTheReason) {
  exchange_.push_status = absl::InvalidArgumentError("dense0.bias is inf");
  ReceiveTask(1);
  ASSERT_TRUE(loop_.Run().ok());
  ASSERT_THAT(sent_, SizeIs(1));
  EXPECT_EQ(sent_[0].rejected().reason(), "dense0.bias is inf");
  EXPECT_EQ(counters_.Get().gradients_rejected, 1);
}

TEST_F(WorkerLoopTest, AShardThatCannotBeReachedEndsTheLoopByName) {
  exchange_.pull_status = absl::UnavailableError("shard 1 at b:2: refused");
  ReceiveTask(1);
  EXPECT_EQ(loop_.Run(), exchange_.pull_status);
  EXPECT_THAT(sent_, SizeIs(0));
}

TEST_F(WorkerLoopTest, TheEndOfTheRunStopsATaskInTheMiddle) {
  model_->on_backward = [this] {
    proto::FromCoordinator message;
    message.mutable_finish();
    inbox_.Receive(message);
  };
  ReceiveTask(1);
  EXPECT_TRUE(loop_.Run().ok());
  EXPECT_THAT(sent_, SizeIs(0));
  EXPECT_EQ(counters_.Get().tasks_cancelled, 1);
}

}  // namespace
}  // namespace sluice

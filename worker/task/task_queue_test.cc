#include "worker/task/task_queue.h"

#include "common/key_proto.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

GradientKey Key(int64_t sequence, int64_t incarnation = 1) {
  return {Generation(1), WorkerId(3), Incarnation(incarnation),
          Sequence(sequence)};
}

proto::Task TaskOf(const GradientKey& key) {
  proto::Task task;
  *task.mutable_key() = KeyToProto(key);
  return task;
}

int64_t TakeSequence(TaskQueue* queue) {
  const auto task = queue->Take();
  return task.has_value() ? task->key().sequence() : -1;
}

TEST(TaskQueueTest, TasksRunOneAfterTheOtherInTheirOrder) {
  TaskQueue queue;
  queue.Add(TaskOf(Key(1)));
  queue.Add(TaskOf(Key(2)));
  EXPECT_EQ(TakeSequence(&queue), 1);
  queue.Done();
  EXPECT_EQ(TakeSequence(&queue), 2);
  queue.Done();
  EXPECT_EQ(TakeSequence(&queue), -1);
}

TEST(TaskQueueTest, CancellingTheRunningTaskStopsItAndKeepsTheNext) {
  TaskQueue queue;
  queue.Add(TaskOf(Key(1)));
  EXPECT_EQ(TakeSequence(&queue), 1);
  queue.Add(TaskOf(Key(2)));
  EXPECT_TRUE(queue.Cancel(Key(1)));
  queue.Done();
  EXPECT_EQ(TakeSequence(&queue), 2);
}

TEST(TaskQueueTest, ATaskCancelledBeforeItBeganNeverRuns) {
  TaskQueue queue;
  queue.Add(TaskOf(Key(1)));
  queue.Add(TaskOf(Key(2)));
  EXPECT_FALSE(queue.Cancel(Key(1)));
  EXPECT_EQ(queue.cancelled_unstarted(), 1);
  EXPECT_EQ(TakeSequence(&queue), 2);
}

TEST(TaskQueueTest, ACancelForATaskThatHasEndedStopsNothing) {
  TaskQueue queue;
  queue.Add(TaskOf(Key(1)));
  EXPECT_EQ(TakeSequence(&queue), 1);
  queue.Done();
  queue.Add(TaskOf(Key(2)));
  EXPECT_EQ(TakeSequence(&queue), 2);
  EXPECT_FALSE(queue.Cancel(Key(1)));
  EXPECT_EQ(queue.cancelled_unstarted(), 0);
}

TEST(TaskQueueTest, TheSameSequenceOfAnotherLifeIsAnotherTask) {
  TaskQueue queue;
  queue.Add(TaskOf(Key(1, /*incarnation=*/2)));
  EXPECT_EQ(TakeSequence(&queue), 1);
  EXPECT_FALSE(queue.Cancel(Key(1, /*incarnation=*/1)));
}

TEST(TaskQueueTest, TheEndOfALifeEndsAllItsTasks) {
  TaskQueue queue;
  EXPECT_FALSE(queue.EndLife());
  queue.Add(TaskOf(Key(1)));
  EXPECT_EQ(TakeSequence(&queue), 1);
  queue.Add(TaskOf(Key(2)));
  EXPECT_TRUE(queue.EndLife());
  queue.Done();
  EXPECT_EQ(TakeSequence(&queue), -1);
  EXPECT_EQ(queue.cancelled_unstarted(), 1);
}

}  // namespace
}  // namespace sluice

#include "sim/event_queue.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

std::vector<int> TakeAll(EventQueue<int>* queue) {
  std::vector<int> taken;
  while (!queue->empty()) taken.push_back(queue->Take());
  return taken;
}

TEST(EventQueueTest, GoesByTimeAndAmongEqualsByOrder) {
  EventQueue<int> queue;
  queue.Add(20, 3);
  queue.Add(10, 1);
  queue.Add(20, 4);
  queue.Add(10, 2);
  EXPECT_THAT(TakeAll(&queue), ::testing::ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(queue.now(), 20);
}

TEST(EventQueueTest, WhatIsDueAtOnceGoesFirst) {
  EventQueue<int> queue;
  queue.Add(10, 1);
  queue.Add(10, 4);
  EXPECT_EQ(queue.Take(), 1);
  queue.Add(0, 2);
  queue.Add(0, 3);
  queue.Add(5, 5);
  EXPECT_THAT(TakeAll(&queue), ::testing::ElementsAre(2, 3, 4, 5));
  EXPECT_EQ(queue.now(), 15);
}

TEST(EventQueueTest, NothingIsLaterThanTheEndOfTime) {
  EventQueue<int> queue;
  const VirtualTime long_after = VirtualSeconds(1e300);
  EXPECT_GT(long_after, VirtualSeconds(4e9));
  for (int i = 1; i <= 3; ++i) {
    queue.Add(long_after, i);
    EXPECT_EQ(queue.Take(), i);
  }
  EXPECT_EQ(queue.now(), kEndOfTime);
  EXPECT_EQ(VirtualSeconds(1.5e-9), 2);
}

}  // namespace
}  // namespace sluice

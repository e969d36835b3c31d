#include "common/session/reliable_queue.h"

#include <deque>
#include <vector>

#include "common/random.h"
#include "gtest/gtest.h"
#include "proto/coordinator.pb.h"

namespace sluice {
namespace {

using Queue = ReliableQueue<proto::ToCoordinator>;

proto::ToCoordinator Message(int64_t content) {
  proto::ToCoordinator message;
  message.mutable_executed()->set_decision(content);
  return message;
}

TEST(ReliableQueueTest, NumbersMessagesFromOne) {
  Queue queue(10);
  ASSERT_TRUE(queue.Push(Message(7)).ok());
  ASSERT_TRUE(queue.Push(Message(8)).ok());
  EXPECT_EQ(queue.Next().sequence(), 1);
  EXPECT_EQ(queue.Next().sequence(), 2);
  EXPECT_FALSE(queue.HasNext());
}

TEST(ReliableQueueTest, SendsWhatIsUnacknowledgedAgainAfterAReconnect) {
  Queue queue(10);
  for (int i = 1; i <= 3; ++i) ASSERT_TRUE(queue.Push(Message(i)).ok());
  queue.Next();
  queue.Next();
  queue.Reconnect();
  ASSERT_TRUE(queue.Acknowledge(1).ok());
  EXPECT_EQ(queue.Next().sequence(), 2);
  EXPECT_EQ(queue.Next().sequence(), 3);
}

TEST(ReliableQueueTest, AnAcknowledgementIsCumulativeAndAnOldOneIsIgnored) {
  Queue queue(10);
  for (int i = 1; i <= 3; ++i) {
    ASSERT_TRUE(queue.Push(Message(i)).ok());
    queue.Next();
  }
  ASSERT_TRUE(queue.Acknowledge(2).ok());
  ASSERT_TRUE(queue.Acknowledge(1).ok());
  EXPECT_EQ(queue.unacknowledged(), 1);
}

TEST(ReliableQueueTest, RefusesTheAcknowledgementOfAMessageNeverSent) {
  Queue queue(10);
  ASSERT_TRUE(queue.Push(Message(1)).ok());
  EXPECT_EQ(queue.Acknowledge(2).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ReliableQueueTest, RefusesTheMessageThatWouldExceedItsCapacity) {
  Queue queue(2);
  ASSERT_TRUE(queue.Push(Message(1)).ok());
  ASSERT_TRUE(queue.Push(Message(2)).ok());
  EXPECT_EQ(queue.Push(Message(3)).code(),
            absl::StatusCode::kResourceExhausted);
  queue.Next();
  ASSERT_TRUE(queue.Acknowledge(1).ok());
  EXPECT_TRUE(queue.Push(Message(3)).ok());
}

TEST(ReliableQueueTest, ARepeatedMessageIsRecognisedAndAGapIsRefused) {
  Queue queue(1);
  EXPECT_TRUE(*queue.Receive(1));
  EXPECT_FALSE(*queue.Receive(1));
  EXPECT_EQ(queue.Receive(3).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(queue.received(), 1);
}

// Two ends and a connection between them. A break loses everything that is on
// its way in both directions.
struct Ends {
  Queue sender{8};
  Queue receiver{8};
  std::deque<proto::ToCoordinator> frames;
  std::deque<uint64_t> acks;
  std::vector<int64_t> arrived;

  void Break() {
    frames.clear();
    acks.clear();
    sender.Reconnect();
    // The Join of a reconnect names the last number received.
    ASSERT_TRUE(sender.Acknowledge(receiver.received()).ok());
  }
  void Deliver(bool twice) {
    if (frames.empty()) return;
    const proto::ToCoordinator frame = frames.front();
    if (!twice) frames.pop_front();
    const absl::StatusOr<bool> is_new = receiver.Receive(frame.sequence());
    ASSERT_TRUE(is_new.ok()) << is_new.status();
    if (*is_new) arrived.push_back(frame.executed().decision());
    acks.push_back(receiver.received());
  }
};

TEST(ReliableQueueTest, DeliversEveryMessageOnceAndInOrderWhateverBreaks) {
  int breaks = 0;
  int repeats = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    const Random random(seed, "reliable queue");
    Ends ends;
    int64_t pushed = 0;
    for (uint64_t step = 0; step < 2000 && ends.arrived.size() < 100; ++step) {
      switch (random.Uint64(step) % 16) {
        case 0:
          ends.Break();
          ++breaks;
          break;
        case 1:
          ends.Deliver(/*twice=*/true);
          ++repeats;
          break;
        case 2:
        case 3:
        case 4:
          if (!ends.acks.empty()) {
            ASSERT_TRUE(ends.sender.Acknowledge(ends.acks.front()).ok());
            ends.acks.pop_front();
          }
          break;
        case 5:
        case 6:
        case 7:
          if (ends.sender.Push(Message(pushed + 1)).ok()) ++pushed;
          break;
        case 8:
        case 9:
        case 10:
        case 11:
          if (ends.sender.HasNext()) ends.frames.push_back(ends.sender.Next());
          break;
        default:
          ends.Deliver(/*twice=*/false);
      }
      ASSERT_LE(ends.sender.unacknowledged(), 8);
      for (size_t i = 0; i < ends.arrived.size(); ++i) {
        ASSERT_EQ(ends.arrived[i], static_cast<int64_t>(i) + 1);
      }
    }
    EXPECT_GE(ends.arrived.size(), 100);
  }
  EXPECT_GT(breaks, 1000);
  EXPECT_GT(repeats, 1000);
}

}  // namespace
}  // namespace sluice

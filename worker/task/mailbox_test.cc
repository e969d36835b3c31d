#include "worker/task/mailbox.h"

#include <thread>

#include "gtest/gtest.h"

namespace sluice {
namespace {

// Far longer than any test takes: a wait that lasts so long is a failure.
constexpr absl::Duration kLong = absl::Seconds(30);

TEST(MailboxTest, MessagesReachTheThreadThatWaitsInTheirOrder) {
  Mailbox<int> mailbox;
  std::thread sender([&] {
    mailbox.Put(1);
    mailbox.Put(2);
  });
  EXPECT_EQ(mailbox.Take(kLong), 1);
  EXPECT_EQ(mailbox.Take(kLong), 2);
  sender.join();
}

TEST(MailboxTest, AnEmptyBoxEndsTheWaitAfterItsTime) {
  Mailbox<int> mailbox;
  EXPECT_EQ(mailbox.Take(absl::ZeroDuration()), std::nullopt);
  EXPECT_FALSE(mailbox.closed());
}

TEST(MailboxTest, ClosingEndsTheWaitAfterTheMessagesThatAreInIt) {
  Mailbox<int> mailbox;
  mailbox.Put(1);
  mailbox.Close();
  mailbox.Put(2);
  EXPECT_EQ(mailbox.Take(kLong), 1);
  EXPECT_EQ(mailbox.Take(kLong), std::nullopt);
  EXPECT_TRUE(mailbox.closed());
}

}  // namespace
}  // namespace sluice

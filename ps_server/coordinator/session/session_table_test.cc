#include "ps_server/coordinator/session/session_table.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

proto::FromCoordinator Decision(int64_t number) {
  proto::FromCoordinator message;
  message.mutable_decision()->set_number(number);
  return message;
}

TEST(SessionTableTest, NobodyHasToBeToldWhenNobodyJoined) {
  SessionTable table(2);
  table.SendFinish({});
  EXPECT_TRUE(table.EverybodyTold());
}

TEST(SessionTableTest, AMessageToAWorkerThatIsNotThereIsLeftOut) {
  SessionTable table(1);
  table.SendToWorker(WorkerId(3), Incarnation(1), {});
  EXPECT_EQ(table.Find(Peer{Role::kWorker, 3}), nullptr);
}

TEST(SessionTableTest, AShardThatAcknowledgesNothingIsGivenUpAndNamed) {
  SessionTable table(2);
  int64_t sent = 0;
  std::vector<SessionTable::Seat*> lost;
  while (lost.empty() && sent < 1000000) {
    table.SendToShards(Decision(++sent));
    lost = table.TakeOverflowed();
  }
  EXPECT_EQ(sent, 65537);
  ASSERT_EQ(lost.size(), 2);
  EXPECT_EQ(lost[1]->peer, (Peer{Role::kShard, 1}));
  table.SendToShards(Decision(++sent));
  EXPECT_TRUE(table.TakeOverflowed().empty()) << "said once";
}

}  // namespace
}  // namespace sluice

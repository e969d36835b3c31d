#include "ps_server/decisions/decision_stream.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

const absl::Time kStart = absl::UnixEpoch();

GradientKey Key(int64_t sequence) {
  return {Generation(1), WorkerId(0), Incarnation(1), Sequence(sequence)};
}

class DecisionStreamTest : public testing::Test {
 protected:
  int64_t Restored() {
    return stream_.Append(Restore{Generation(1), Version(0), "", {}}, kStart)
        .number;
  }
  int64_t Commit(int64_t version, int gradients = 0) {
    sluice::Commit commit;
    commit.version = Version(version);
    for (int i = 0; i < gradients; ++i) commit.entries.push_back({Key(i), 1});
    return stream_.Append(commit, kStart).number;
  }
  absl::Status Executed(int64_t shard, int64_t number, int64_t version) {
    return stream_.Acknowledge(ShardId(shard), number, Version(version));
  }

  DecisionStream stream_{/*shards=*/2, /*room=*/3, /*window=*/2};
};

TEST_F(DecisionStreamTest, NumbersFromOneWithoutGaps) {
  EXPECT_EQ(Restored(), 1);
  EXPECT_EQ(Commit(1), 2);
  EXPECT_EQ(stream_.Append(Discard{{Key(1)}}, kStart).number, 3);
  EXPECT_EQ(stream_.Append(Pin{Version(1)}, kStart).number, 4);
  EXPECT_EQ(stream_.Append(Release{Version(1)}, kStart).number, 5);
}

TEST_F(DecisionStreamTest, RoomComesBackWhenEveryShardHasExecuted) {
  Restored();
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(stream_.HasRoom());
    stream_.TakeRoom();
  }
  EXPECT_FALSE(stream_.HasRoom());
  Commit(1, 1);                                       // Decision 2.
  stream_.Append(Discard{{Key(8), Key(9)}}, kStart);  // Decision 3.
  EXPECT_FALSE(stream_.HasRoom());
  EXPECT_TRUE(Executed(0, 3, 1).ok());
  EXPECT_FALSE(stream_.HasRoom());
  EXPECT_TRUE(Executed(1, 2, 1).ok());
  EXPECT_TRUE(stream_.HasRoom());
  stream_.TakeRoom();
  EXPECT_FALSE(stream_.HasRoom());
  EXPECT_TRUE(Executed(1, 3, 1).ok());
  EXPECT_TRUE(stream_.HasRoom());
  EXPECT_TRUE(stream_.idle());
}

TEST_F(DecisionStreamTest, TheSlowestShardHoldsTheCommitWindow) {
  Restored();
  Commit(1);
  EXPECT_TRUE(stream_.WindowOpen());
  Commit(2);
  EXPECT_FALSE(stream_.WindowOpen());
  EXPECT_TRUE(Executed(0, 3, 2).ok());
  EXPECT_FALSE(stream_.WindowOpen());
  EXPECT_EQ(stream_.slowest(), ShardId(1));
  EXPECT_TRUE(Executed(1, 2, 1).ok());
  EXPECT_TRUE(stream_.WindowOpen());
  EXPECT_EQ(stream_.executed(), Version(1));
}

TEST_F(DecisionStreamTest, RepeatedAndOlderAcknowledgementsChangeNothing) {
  Restored();
  Commit(1);
  EXPECT_TRUE(Executed(0, 2, 1).ok());
  EXPECT_TRUE(Executed(0, 2, 1).ok());
  EXPECT_TRUE(Executed(0, 1, 0).ok());
  EXPECT_EQ(stream_.acknowledged(), 0);
  EXPECT_TRUE(Executed(1, 2, 1).ok());
  EXPECT_EQ(stream_.acknowledged(), 2);
}

TEST_F(DecisionStreamTest, RefusesWhatWasNeverSentAndTheWrongVersion) {
  Restored();
  Commit(1);
  EXPECT_EQ(Executed(0, 3, 1).message(),
            "shard 0: acknowledges decision 3, the last one sent is 2");
  const absl::Status drifted = Executed(1, 2, 0);
  EXPECT_TRUE(absl::IsDataLoss(drifted));
  EXPECT_EQ(drifted.message(),
            "shard 1: stands at version 0 after decision 2, expected 1");
}

}  // namespace
}  // namespace sluice

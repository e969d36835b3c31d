#include "ps_server/coordinator/versions/checkpoints.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Due = Checkpoints::Due;

const absl::Time kStart = absl::UnixEpoch();

absl::Time At(double seconds) { return kStart + absl::Seconds(seconds); }

// A checkpoint every so many updates and seconds, of which `keep` stay.
proto::Checkpoint Every(int64_t updates, double seconds = 0, int keep = 2) {
  proto::Checkpoint options;
  options.set_every_updates(updates);
  options.set_every_s(seconds);
  options.set_keep(keep);
  return options;
}

StoredPart Part(const std::string& error = "") {
  StoredPart part;
  part.file = "shard";
  part.error = error;
  return part;
}

// Stores `version` of one shard and returns what is to go.
std::vector<std::pair<Generation, Version>> StoreIn(Checkpoints& checkpoints,
                                                    int64_t version) {
  EXPECT_EQ(checkpoints.Decided(Version(version), kStart), Due::kStart);
  EXPECT_TRUE(checkpoints.Reported(ShardId(0), Version(version), Part()));
  std::vector<std::pair<Generation, Version>> old;
  for (const RemoveStored& one : checkpoints.Written()) {
    old.emplace_back(one.generation, one.version);
  }
  return old;
}

// Every two updates of one shard, keeping two.
class CheckpointsTest : public ::testing::Test {
 protected:
  // Stores `version` and returns what is to go.
  std::vector<Version> Store(int64_t version) {
    std::vector<Version> old;
    for (const auto& [generation, one] : StoreIn(checkpoints_, version)) {
      EXPECT_EQ(generation, Generation(1));
      old.push_back(one);
    }
    return old;
  }
  Checkpoints checkpoints_{Every(2), {}, Generation(1), /*shards=*/1, kStart};
};

TEST_F(CheckpointsTest, OneFallsDueEverySoManyUpdates) {
  EXPECT_EQ(checkpoints_.Decided(Version(1), At(100)), Due::kNo);
  EXPECT_EQ(checkpoints_.Decided(Version(2), At(100)), Due::kStart);
  EXPECT_EQ(checkpoints_.running()->version, Version(2));
}

TEST_F(CheckpointsTest, OneThatIsRequestedFallsDueWithTheNextVersionOnce) {
  checkpoints_.Request();
  checkpoints_.Request();
  EXPECT_EQ(checkpoints_.Decided(Version(1), At(100)), Due::kStart);
  EXPECT_EQ(checkpoints_.running()->version, Version(1));
  checkpoints_.Failed("test");
  EXPECT_EQ(checkpoints_.Decided(Version(3), At(100)), Due::kNo);
}

TEST_F(CheckpointsTest, TheNewestAreKeptAndTheOldestGoFirst) {
  EXPECT_FALSE(checkpoints_.newest().has_value());
  EXPECT_EQ(checkpoints_.oldest().first, Generation(0));
  EXPECT_THAT(Store(2), IsEmpty());
  EXPECT_THAT(Store(4), IsEmpty());
  EXPECT_THAT(Store(6), ElementsAre(Version(2)));
  EXPECT_THAT(Store(8), ElementsAre(Version(4)));
  EXPECT_EQ(checkpoints_.newest(), Version(8));
  EXPECT_EQ(checkpoints_.oldest(), std::pair(Generation(1), Version(6)));
  EXPECT_FALSE(checkpoints_.Keeps(Version(4)));
  EXPECT_TRUE(checkpoints_.Keeps(Version(6)));
  EXPECT_EQ(checkpoints_.counters().written, 4);
}

TEST_F(CheckpointsTest, OneThatFallsDueWhileAnotherIsWrittenIsLate) {
  checkpoints_.Decided(Version(2), kStart);
  EXPECT_EQ(checkpoints_.Decided(Version(4), At(1)), Due::kLate);
  EXPECT_EQ(checkpoints_.running()->version, Version(2));
  EXPECT_EQ(checkpoints_.counters().late, 1);
  EXPECT_EQ(checkpoints_.running()->late, 1);
  EXPECT_TRUE(checkpoints_.Reported(ShardId(0), Version(2), Part()));
  checkpoints_.Written();
  EXPECT_EQ(checkpoints_.Decided(Version(5), At(2)), Due::kNo);
  EXPECT_EQ(checkpoints_.Decided(Version(6), At(2)), Due::kStart);
}

TEST_F(CheckpointsTest, OneThatFailedIsNotKeptAndTakesNonesPlace) {
  Store(2);
  Store(4);
  checkpoints_.Decided(Version(6), kStart);
  EXPECT_TRUE(
      checkpoints_.Reported(ShardId(0), Version(6), Part("the disk is full")));
  EXPECT_EQ(checkpoints_.Error(), "shard 0: the disk is full");
  checkpoints_.Failed("the disk is full");
  EXPECT_EQ(checkpoints_.counters().failed, 1);
  EXPECT_EQ(checkpoints_.last_error(), "the disk is full");
  EXPECT_EQ(checkpoints_.newest(), Version(4));
  EXPECT_THAT(Store(8), ElementsAre(Version(2)));
}

TEST(CheckpointsByTimeTest, OneFallsDueEverySoManySecondsAfterTheLast) {
  Checkpoints checkpoints(Every(0, 10), {}, Generation(1), 1, kStart);
  EXPECT_EQ(checkpoints.Decided(Version(1), At(9.9)), Due::kNo);
  EXPECT_EQ(checkpoints.Decided(Version(2), At(13)), Due::kStart);
  checkpoints.Reported(ShardId(0), Version(2), Part());
  checkpoints.Written();
  EXPECT_EQ(checkpoints.Decided(Version(3), At(22.9)), Due::kNo);
  EXPECT_EQ(checkpoints.Decided(Version(4), At(23)), Due::kStart);
}

TEST(CheckpointsByTimeTest, WhicheverComesFirstBeginsOne) {
  Checkpoints checkpoints(Every(5, 10), {}, Generation(1), 1, kStart);
  EXPECT_EQ(checkpoints.Decided(Version(5), At(1)), Due::kStart);
  checkpoints.Reported(ShardId(0), Version(5), Part());
  checkpoints.Written();
  EXPECT_EQ(checkpoints.Decided(Version(6), At(10)), Due::kNo);
  EXPECT_EQ(checkpoints.Decided(Version(7), At(11)), Due::kStart);
}

TEST(CheckpointsByTimeTest, WithoutAPeriodNoneEverIs) {
  Checkpoints checkpoints(Every(0), {}, Generation(1), 1, kStart);
  EXPECT_EQ(checkpoints.Decided(Version(0), At(1e9)), Due::kNo);
}

TEST(CheckpointGenerationsTest, WhatEarlierOnesHaveLeftGoesInItsTurn) {
  Checkpoints checkpoints(
      Every(5),
      {.there = {{Generation(1), Version(10)}, {Generation(2), Version(15)}},
       .read_whole = {Generation(2), Version(15)}},
      Generation(3), 1, kStart);
  EXPECT_FALSE(checkpoints.newest().has_value());
  EXPECT_FALSE(checkpoints.Keeps(Version(15)));
  EXPECT_EQ(checkpoints.Decided(Version(15), kStart), Due::kStart);
  EXPECT_TRUE(checkpoints.Reported(ShardId(0), Version(15), Part()));
  const std::vector<RemoveStored> old = checkpoints.Written();
  ASSERT_EQ(old.size(), 1);
  EXPECT_EQ(old[0].generation, Generation(1));
  EXPECT_EQ(old[0].version, Version(10));
  EXPECT_TRUE(checkpoints.Keeps(Version(15)));
  EXPECT_EQ(checkpoints.newest(), Version(15));
}

TEST(CheckpointGenerationsTest, OnlyWholeOnesTakeAPlaceAmongThoseKept) {
  using Id = std::pair<Generation, Version>;
  // 300 was being written as its generation ended: it has no manifest.
  const Id older(1, 100), damaged(1, 150), whole(1, 200), unfinished(1, 300);
  Checkpoints checkpoints(Every(50, 0, /*keep=*/3),
                          {.there = {older, damaged, whole, unfinished},
                           .damaged = {unfinished, damaged},
                           .read_whole = whole},
                          Generation(2), 1, kStart);
  EXPECT_EQ(checkpoints.oldest(), older);
  EXPECT_THAT(StoreIn(checkpoints, 250), ElementsAre(damaged, unfinished));
  EXPECT_EQ(checkpoints.oldest(), older);
  EXPECT_THAT(StoreIn(checkpoints, 300), ElementsAre(older));
  EXPECT_EQ(checkpoints.oldest(), whole);
}

TEST(CheckpointGenerationsTest, TheDamagedStayUntilOneIsWhole) {
  using Id = std::pair<Generation, Version>;
  const Id damaged(1, 100);
  Checkpoints checkpoints(Every(50, 0, /*keep=*/1),
                          {.there = {damaged}, .damaged = {damaged}},
                          Generation(2), 1, kStart);
  EXPECT_EQ(checkpoints.oldest().first, Generation(0));
  EXPECT_EQ(checkpoints.Decided(Version(50), kStart), Due::kStart);
  checkpoints.Failed("the disk is full");
  EXPECT_THAT(StoreIn(checkpoints, 100), ElementsAre(damaged));
  EXPECT_THAT(StoreIn(checkpoints, 150),
              ElementsAre(Id(Generation(2), Version(100))));
}

TEST(CheckpointPartsTest, EveryShardsPartIsWaitedForAndCountsOnce) {
  Checkpoints checkpoints(Every(1), {}, Generation(1), /*shards=*/3, kStart);
  EXPECT_THAT(checkpoints.Missing(), IsEmpty());
  checkpoints.Decided(Version(1), kStart);
  EXPECT_FALSE(checkpoints.Reported(ShardId(1), Version(1), Part()));
  EXPECT_FALSE(checkpoints.Reported(ShardId(1), Version(1), Part("again")));
  EXPECT_FALSE(checkpoints.Reported(ShardId(0), Version(7), Part()));
  EXPECT_THAT(checkpoints.Missing(), ElementsAre(ShardId(0), ShardId(2)));
  EXPECT_FALSE(checkpoints.Reported(ShardId(0), Version(1), Part()));
  EXPECT_TRUE(checkpoints.Reported(ShardId(2), Version(1), Part()));
  EXPECT_EQ(checkpoints.Error(), "");
  EXPECT_FALSE(checkpoints.Reported(ShardId(2), Version(1), Part()));
}

TEST(CheckpointGenerationsTest,
     WhatNobodyCouldReadIsNotRemovedButTheDamagedIs) {
  using Id = std::pair<Generation, Version>;
  const Id older(1, 5), whole(1, 10), unread(2, 15), damaged(2, 20);
  Checkpoints checkpoints(Every(5, 0, /*keep=*/1),
                          {.there = {older, whole, unread, damaged},
                           .damaged = {damaged},
                           .read_whole = whole},
                          Generation(3), 1, kStart);
  EXPECT_THAT(StoreIn(checkpoints, 15), ElementsAre(damaged, older, whole));
}

}  // namespace
}  // namespace sluice

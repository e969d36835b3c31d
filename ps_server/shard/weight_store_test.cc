#include "ps_server/shard/weight_store.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr int64_t kFloats = 10;

// Three chunks: 4, 4 and 2 floats, counting up from 0.
class WeightStoreTest : public testing::Test {
 protected:
  WeightStoreTest() : store_(ChunkGrid(kFloats, 4), 2) {
    std::vector<float> weights(kFloats);
    std::iota(weights.begin(), weights.end(), 0.0f);
    store_.Initialize(Version(0), weights);
  }

  // Makes the next version: adds 100 to every weight. Returns ended reads.
  std::vector<ReadId> Update() {
    const ChunkGrid grid(kFloats, 4);
    std::vector<ReadId> ended = store_.Close();
    for (int i = 0; i < grid.count(); ++i) {
      const WeightStore::Piece piece = store_.Prepare(i);
      for (int j = 0; j < grid.size(i); ++j)
        piece.to[j] = piece.from.data()[j] + 100;
    }
    store_.Publish();
    return ended;
  }

  // Whether the snapshot is version v, whole: weight i is 100 v + i.
  static bool IsWhole(const WeightStore::Read& read) {
    const ChunkGrid grid(kFloats, 4);
    for (int i = 0; i < kFloats; ++i) {
      const float* chunk = read.snapshot->chunks[i / 4].data();
      if (chunk[i % 4] != 100 * read.snapshot->version.value() + i) {
        return false;
      }
    }
    return true;
  }

  WeightStore store_;
};

TEST_F(WeightStoreTest, AnUpdateThatNobodyWatchesIsWrittenInPlace) {
  WeightStore::Read before = store_.BeginRead();
  const float* place = before.snapshot->chunks[0].data();
  store_.EndRead(before.id);
  before.snapshot.reset();
  Update();
  EXPECT_EQ(store_.chunks_copied(), 0);
  const WeightStore::Read after = store_.BeginRead();
  EXPECT_EQ(after.snapshot->chunks[0].data(), place);
  EXPECT_EQ(after.snapshot->version, Version(1));
  EXPECT_TRUE(IsWhole(after));
}

TEST_F(WeightStoreTest, AReaderKeepsItsWholeVersionWhileUpdatesGoOn) {
  const WeightStore::Read old = store_.BeginRead();
  EXPECT_TRUE(Update().empty());
  EXPECT_TRUE(Update().empty());
  EXPECT_EQ(old.snapshot->version, Version(0));
  EXPECT_TRUE(IsWhole(old));
  EXPECT_TRUE(IsWhole(store_.BeginRead()));
  EXPECT_EQ(store_.chunks_copied(), 3);  // The first update's; not again.
}

TEST_F(WeightStoreTest, WhatAnUpdateIsMadeFromStaysWhenItsReaderLetsGo) {
  std::optional<WeightStore::Read> read = store_.BeginRead();
  store_.Close();
  const WeightStore::Piece first = store_.Prepare(0);
  store_.EndRead(read->id);
  read.reset();
  const WeightStore::Piece second = store_.Prepare(1);
  std::fill_n(second.to, 4, -1.0f);
  EXPECT_EQ(first.from.data()[3], 3);
}

TEST_F(WeightStoreTest, OnlyAChunkThatIsStillBeingSentIsCopied) {
  ChunkRef sending;
  {
    const WeightStore::Read read = store_.BeginRead();
    sending = read.snapshot->chunks[1];
    store_.EndRead(read.id);
  }
  Update();
  EXPECT_EQ(store_.chunks_copied(), 1);
  EXPECT_EQ(sending.data()[0], 4);
}

TEST_F(WeightStoreTest, AChunkThatWasLetGoIsUsedAgain) {
  const float* old_place;
  {
    const WeightStore::Read read = store_.BeginRead();
    old_place = read.snapshot->chunks[0].data();
    Update();
    store_.EndRead(read.id);
  }
  const WeightStore::Read read = store_.BeginRead();
  Update();
  bool found = false;
  for (const ChunkRef& chunk : store_.BeginRead().snapshot->chunks) {
    found = found || chunk.data() == old_place;
  }
  EXPECT_TRUE(found);
}

TEST_F(WeightStoreTest, TheOldestReadIsEndedWhenMoreThanMaxHeldAreHeld) {
  const WeightStore::Read first = store_.BeginRead();
  const WeightStore::Read also_first = store_.BeginRead();
  EXPECT_TRUE(Update().empty());
  const WeightStore::Read second = store_.BeginRead();
  EXPECT_TRUE(Update().empty());
  EXPECT_EQ(store_.held(), 2);
  const WeightStore::Read third = store_.BeginRead();
  EXPECT_EQ(Update(), (std::vector<ReadId>{first.id, also_first.id}));
  EXPECT_EQ(store_.held(), 2);
  store_.EndRead(first.id);  // Its holder may still say so.
  EXPECT_TRUE(IsWhole(second));
  EXPECT_TRUE(IsWhole(third));
}

TEST_F(WeightStoreTest, APinnedVersionIsNeverEnded) {
  ASSERT_TRUE(store_.Pin(Version(0)).ok());
  for (int i = 0; i < 5; ++i) {
    store_.BeginRead();
    Update();
  }
  const auto read = store_.BeginRead(Version(0));
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(IsWhole(*read));
  EXPECT_EQ(store_.held(), 2);
}

TEST_F(WeightStoreTest, OnlyTheNewestAndPinnedVersionsCanBeRead) {
  const WeightStore::Read held = store_.BeginRead();
  Update();
  EXPECT_FALSE(store_.BeginRead(Version(0)).has_value());
  EXPECT_TRUE(store_.BeginRead(Version(1)).has_value());
  EXPECT_FALSE(store_.BeginRead(Version(2)).has_value());
}

TEST_F(WeightStoreTest, AVersionPinnedTwiceIsReleasedByTheSecondRelease) {
  ASSERT_TRUE(store_.Pin(Version(0)).ok());
  ASSERT_TRUE(store_.Pin(Version(0)).ok());
  Update();
  ASSERT_TRUE(store_.Release(Version(0)).ok());
  EXPECT_TRUE(store_.BeginRead(Version(0)).has_value());
  ASSERT_TRUE(store_.Release(Version(0)).ok());
  EXPECT_FALSE(store_.BeginRead(Version(0)).has_value());
}

TEST_F(WeightStoreTest, PinsAndReleasesOfOtherVersionsSayWhatIsWrong) {
  EXPECT_EQ(store_.Pin(Version(3)).message(),
            "version 3 is to be pinned, but the newest is 0");
  EXPECT_EQ(store_.Release(Version(0)).message(),
            "version 0 is to be released, but is not pinned");
}

}  // namespace
}  // namespace sluice

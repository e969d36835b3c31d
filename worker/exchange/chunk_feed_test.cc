#include "worker/exchange/chunk_feed.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Range = std::pair<int64_t, int64_t>;

std::vector<Range> TakeAll(ChunkFeed* feed) {
  std::vector<Range> taken;
  while (const auto range = feed->Take()) {
    taken.emplace_back(range->begin, range->end);
  }
  return taken;
}

TEST(ChunkFeedTest, ChunksLieOnTheGridOfTheShardsOwnRange) {
  ChunkFeed feed({100, 350}, 100);
  feed.MarkFinal(0);
  EXPECT_THAT(TakeAll(&feed),
              ElementsAre(Range(300, 350), Range(200, 300), Range(100, 200)));
  EXPECT_TRUE(feed.exhausted());
}

TEST(ChunkFeedTest, AChunkWaitsUntilAllOfItIsFinal) {
  ChunkFeed feed({100, 300}, 100);
  feed.MarkFinal(201);
  EXPECT_THAT(TakeAll(&feed), IsEmpty());
  feed.MarkFinal(200);
  EXPECT_THAT(TakeAll(&feed), ElementsAre(Range(200, 300)));
  EXPECT_FALSE(feed.exhausted());
  feed.MarkFinal(101);
  EXPECT_THAT(TakeAll(&feed), IsEmpty());
  feed.MarkFinal(100);
  EXPECT_THAT(TakeAll(&feed), ElementsAre(Range(100, 200)));
}

TEST(ChunkFeedTest, FloatsBehindTheRangeDoNotCount) {
  ChunkFeed feed({100, 300}, 100);
  feed.MarkFinal(1000);
  feed.MarkFinal(300);
  EXPECT_THAT(TakeAll(&feed), IsEmpty());
}

TEST(ChunkFeedTest, AnEmptyRangeHasNothingToSend) {
  ChunkFeed feed({100, 100}, 100);
  feed.MarkFinal(0);
  EXPECT_THAT(TakeAll(&feed), IsEmpty());
  EXPECT_TRUE(feed.exhausted());
}

TEST(ChunkFeedTest, APartOfARangeIsCutWhereTheRangeIs) {
  // The part begins 130 floats behind the shard's own range.
  ChunkFeed feed({500, 700}, 100, 130);
  feed.MarkFinal(571);
  EXPECT_THAT(TakeAll(&feed), ElementsAre(Range(670, 700)));
  feed.MarkFinal(501);
  EXPECT_THAT(TakeAll(&feed), ElementsAre(Range(570, 670)));
  feed.MarkFinal(0);
  EXPECT_THAT(TakeAll(&feed), ElementsAre(Range(500, 570)));
  EXPECT_TRUE(feed.exhausted());
}

}  // namespace
}  // namespace sluice

#include "ps_server/coordinator/policy/delivery_counts.h"

#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

const WorkerId kFast(0), kSlow(1), kLate(2);

TEST(DeliveryCountsTest, OneMayBeTheBoundAheadOfTheSlowestAndNoMore) {
  DeliveryCounts counts(2);
  counts.Add(kFast);
  counts.Add(kSlow);
  for (int i = 0; i < 2; ++i) {
    counts.Delivered(kFast);
    EXPECT_FALSE(counts.Ahead(kFast));
  }
  counts.Delivered(kFast);
  EXPECT_TRUE(counts.Ahead(kFast));
  EXPECT_FALSE(counts.Ahead(kSlow));
}

TEST(DeliveryCountsTest, NamesTheParkedOnceTheSlowestHasCaughtUp) {
  DeliveryCounts counts(0);
  counts.Add(kFast);
  counts.Add(kSlow);
  counts.Delivered(kFast);
  counts.Park(kFast);
  EXPECT_TRUE(counts.TakeReleased().empty());
  counts.Delivered(kSlow);
  EXPECT_EQ(counts.TakeReleased(), std::vector<WorkerId>{kFast});
  EXPECT_TRUE(counts.TakeReleased().empty());
}

TEST(DeliveryCountsTest, AJoinerStartsAtTheSlowestsCount) {
  DeliveryCounts counts(1);
  counts.Add(kFast);
  counts.Add(kSlow);
  for (int i = 0; i < 5; ++i) counts.Delivered(kFast);
  for (int i = 0; i < 4; ++i) counts.Delivered(kSlow);
  counts.Add(kLate);
  EXPECT_FALSE(counts.Ahead(kFast));  // The joiner did not start at 0.
  counts.Delivered(kFast);
  EXPECT_TRUE(counts.Ahead(kFast));  // Nor at 5.
}

TEST(DeliveryCountsTest, NobodyWaitsForOneThatIsGone) {
  DeliveryCounts counts(0);
  counts.Add(kFast);
  counts.Add(kSlow);
  counts.Delivered(kFast);
  counts.Park(kFast);
  counts.Remove(kSlow);
  EXPECT_EQ(counts.TakeReleased(), std::vector<WorkerId>{kFast});
  EXPECT_FALSE(counts.Ahead(kFast));
}

TEST(DeliveryCountsTest, AfterLevellingAllAreEqual) {
  DeliveryCounts counts(0);
  counts.Add(kFast);
  counts.Add(kSlow);
  counts.Delivered(kFast);
  counts.Level();
  EXPECT_FALSE(counts.Ahead(kFast));
  EXPECT_FALSE(counts.Ahead(kSlow));
}

}  // namespace
}  // namespace sluice

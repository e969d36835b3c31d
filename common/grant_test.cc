#include "common/grant.h"

#include <cstdint>
#include <set>

#include "gtest/gtest.h"

namespace sluice {
namespace {

GradientKey Key(int64_t generation, int64_t worker, int64_t incarnation,
                int64_t sequence) {
  return {Generation(generation), WorkerId(worker), Incarnation(incarnation),
          Sequence(sequence)};
}

TEST(GrantTest, ChangesWithTheSecretAndWithEveryFieldOfTheKey) {
  const std::set<uint64_t> grants = {
      GrantFor(7, Key(1, 2, 3, 4)), GrantFor(8, Key(1, 2, 3, 4)),
      GrantFor(7, Key(2, 2, 3, 4)), GrantFor(7, Key(1, 3, 3, 4)),
      GrantFor(7, Key(1, 2, 4, 4)), GrantFor(7, Key(1, 2, 3, 5)),
      GrantFor(7, Key(2, 1, 3, 4))};
  EXPECT_EQ(grants.size(), 7u);
}

TEST(GrantTest, IsTheSameNumberInEveryProcessAndBuild) {
  EXPECT_EQ(GrantFor(0x0123456789abcdef, Key(1, 3, 1, 17)), 0x9dfa9a69df94b6f6);
}

}  // namespace
}  // namespace sluice

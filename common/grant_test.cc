#include "common/grant.h"

#include <cstdint>
#include <set>
#include <string>

#include "absl/strings/escaping.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

GradientKey Key(int64_t generation, int64_t worker, int64_t incarnation,
                int64_t sequence) {
  return {Generation(generation), WorkerId(worker), Incarnation(incarnation),
          Sequence(sequence)};
}

TEST(GrantTest, ChangesWithTheSecretTheHolderAndEveryFieldOfTheKey) {
  const std::set<std::string> grants = {
      GrantKey("7").GrantFor(Key(1, 2, 3, 4), ""),
      GrantKey("8").GrantFor(Key(1, 2, 3, 4), ""),
      GrantKey("7").GrantFor(Key(1, 2, 3, 4), "a"),
      GrantKey("7").GrantFor(Key(1, 2, 3, 4), "b"),
      GrantKey("7").GrantFor(Key(2, 2, 3, 4), ""),
      GrantKey("7").GrantFor(Key(1, 3, 3, 4), ""),
      GrantKey("7").GrantFor(Key(1, 2, 4, 4), ""),
      GrantKey("7").GrantFor(Key(1, 2, 3, 5), ""),
      GrantKey("7").GrantFor(Key(2, 1, 3, 4), "")};
  EXPECT_EQ(grants.size(), 9u);
}

// The figure is Python's: hmac.new(b"secret", struct.pack("<4Q", 1, 3, 1, 17) +
// b"holder", "sha256").hexdigest()[:32]
TEST(GrantTest, IsTheFirstHalfOfHmacSha256) {
  EXPECT_EQ(absl::BytesToHexString(
                GrantKey("secret").GrantFor(Key(1, 3, 1, 17), "holder")),
            "940df753448b636814d6dcb94641e6b2");
}

TEST(GrantTest, AGrantWithATurnSaysItAndIsForNoOther) {
  const GradientKey key{Generation(1), WorkerId(2), Incarnation(3),
                        Sequence(4)};
  std::string grant = GrantKey("secret").GrantFor(key, "holder", 258);
  EXPECT_EQ(TurnOf(grant), 258);
  EXPECT_TRUE(GrantKey("secret").Made(grant, key, "holder"));
  EXPECT_EQ(TurnOf(GrantKey("secret").GrantFor(key, "holder")), std::nullopt);
  grant[16] ^= 1;
  EXPECT_EQ(TurnOf(grant), 259);
  EXPECT_FALSE(GrantKey("secret").Made(grant, key, "holder"));
  EXPECT_FALSE(GrantKey("secret").Made(grant.substr(0, 16), key, "holder"));
}

}  // namespace
}  // namespace sluice

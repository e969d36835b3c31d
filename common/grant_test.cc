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
      GrantFor("7", Key(1, 2, 3, 4), ""),  GrantFor("8", Key(1, 2, 3, 4), ""),
      GrantFor("7", Key(1, 2, 3, 4), "a"), GrantFor("7", Key(1, 2, 3, 4), "b"),
      GrantFor("7", Key(2, 2, 3, 4), ""),  GrantFor("7", Key(1, 3, 3, 4), ""),
      GrantFor("7", Key(1, 2, 4, 4), ""),  GrantFor("7", Key(1, 2, 3, 5), ""),
      GrantFor("7", Key(2, 1, 3, 4), "")};
  EXPECT_EQ(grants.size(), 9u);
}

// The figure is Python's: hmac.new(b"secret", struct.pack("<4Q", 1, 3, 1, 17) +
// b"holder", "sha256").hexdigest()[:32]
TEST(GrantTest, IsTheFirstHalfOfHmacSha256) {
  EXPECT_EQ(
      absl::BytesToHexString(GrantFor("secret", Key(1, 3, 1, 17), "holder")),
      "940df753448b636814d6dcb94641e6b2");
}

TEST(GrantTest, AGrantWithATurnSaysItAndIsForNoOther) {
  const GradientKey key{Generation(1), WorkerId(2), Incarnation(3),
                        Sequence(4)};
  std::string grant = GrantFor("secret", key, "holder", 258);
  EXPECT_EQ(TurnOf(grant), 258);
  EXPECT_TRUE(GrantIsFor(grant, "secret", key, "holder"));
  EXPECT_EQ(TurnOf(GrantFor("secret", key, "holder")), std::nullopt);
  grant[16] ^= 1;
  EXPECT_EQ(TurnOf(grant), 259);
  EXPECT_FALSE(GrantIsFor(grant, "secret", key, "holder"));
  EXPECT_FALSE(GrantIsFor(grant.substr(0, 16), "secret", key, "holder"));
}

}  // namespace
}  // namespace sluice

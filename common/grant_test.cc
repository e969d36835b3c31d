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

}  // namespace
}  // namespace sluice

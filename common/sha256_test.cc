#include "common/sha256.h"

#include <vector>

#include "gtest/gtest.h"

namespace sluice {
namespace {

constexpr char kAbc[] =
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

// The examples of FIPS 180-4.
TEST(Sha256Test, DigestsAreThePublishedKnownAnswers) {
  EXPECT_EQ(Sha256Hex(absl::string_view("")),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex(absl::string_view("abc")), kAbc);
  EXPECT_EQ(Sha256Hex(absl::string_view(
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST(Sha256Test, PiecesGiveTheDigestOfTheWhole) {
  Sha256 sha;
  sha.Update(absl::string_view("a"));
  sha.Update(absl::string_view(""));
  sha.Update(absl::MakeConstSpan(std::vector<uint8_t>{'b', 'c'}));
  EXPECT_EQ(sha.Hex(), kAbc);
}

}  // namespace
}  // namespace sluice

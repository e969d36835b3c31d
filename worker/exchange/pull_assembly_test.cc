#include "worker/exchange/pull_assembly.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace sluice {
namespace {

using ::testing::HasSubstr;

void ExpectRefused(const absl::Status& status, const std::string& words) {
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr(words));
}

TEST(PullAssemblyTest, ChunksInOrderOfOneVersionMakeASlice) {
  PullAssembly assembly(250, Version(7), /*exact=*/true);
  EXPECT_TRUE(assembly.Accept(Version(7), 0, 100).ok());
  EXPECT_TRUE(assembly.Accept(Version(7), 100, 100).ok());
  EXPECT_TRUE(assembly.Accept(Version(7), 200, 50).ok());
  EXPECT_TRUE(assembly.Finish().ok());
  EXPECT_EQ(assembly.version(), Version(7));
}

TEST(PullAssemblyTest, AMixtureOfVersionsIsRefused) {
  PullAssembly assembly(200, Version(7), /*exact=*/false);
  EXPECT_TRUE(assembly.Accept(Version(8), 0, 100).ok());
  ExpectRefused(assembly.Accept(Version(9), 100, 100),
                "version 9 came after chunks of version 8");
}

TEST(PullAssemblyTest, AnotherVersionThanTheOneAskedForIsRefused) {
  PullAssembly exact(100, Version(7), /*exact=*/true);
  ExpectRefused(exact.Accept(Version(8), 0, 100), "expected version 7");
  PullAssembly newer(100, Version(7), /*exact=*/false);
  ExpectRefused(newer.Accept(Version(6), 0, 100), "version 7 or newer");
}

TEST(PullAssemblyTest, GapsRepeatsAndOverrunsAreRefused) {
  PullAssembly assembly(200, Version(7), /*exact=*/true);
  ExpectRefused(assembly.Accept(Version(7), 100, 100), "at 0");
  EXPECT_TRUE(assembly.Accept(Version(7), 0, 100).ok());
  ExpectRefused(assembly.Accept(Version(7), 0, 100), "at 100");
  ExpectRefused(assembly.Accept(Version(7), 100, 101), "1 to 100 floats");
  ExpectRefused(assembly.Accept(Version(7), 100, 0), "1 to 100 floats");
}

TEST(PullAssemblyTest, MissingChunksAreNoticedAtTheEnd) {
  PullAssembly assembly(200, Version(7), /*exact=*/true);
  EXPECT_TRUE(assembly.Accept(Version(7), 0, 100).ok());
  ExpectRefused(assembly.Finish(), "ended after 100 floats, expected 200");
}

}  // namespace
}  // namespace sluice

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
  EXPECT_TRUE(assembly.End(absl::OkStatus()).ok());
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
  ExpectRefused(assembly.End(absl::OkStatus()),
                "ended after 100 floats, expected 200");
}

// ---- Calls that break ----

const absl::Status kBroken = absl::UnavailableError("broken");
const absl::Status kGone = absl::AbortedError("version 8 is gone");

// The first of two chunks has come of version 8, where 7 or newer was asked
// for, or exactly 8.
PullAssembly Half(bool exact) {
  PullAssembly assembly(200, Version(exact ? 8 : 7), exact);
  EXPECT_EQ(assembly.Ask().offset, 0);
  EXPECT_TRUE(assembly.Accept(Version(8), 0, 100).ok());
  return assembly;
}

TEST(PullAssemblyTest, ACallThatBrokeGoesOnThereWithTheVersionThatIsHere) {
  PullAssembly assembly = Half(/*exact=*/false);
  EXPECT_EQ(assembly.End(kBroken), kBroken);
  EXPECT_FALSE(assembly.BeginAnew());
  const PullAssembly::Question question = assembly.Ask();
  EXPECT_EQ(question.version, Version(8));
  EXPECT_TRUE(question.exact);
  EXPECT_EQ(question.offset, 100);
  EXPECT_TRUE(assembly.Accept(Version(8), 100, 100).ok());
  EXPECT_TRUE(assembly.End(absl::OkStatus()).ok());
}

TEST(PullAssemblyTest, ACallThatBrokeBeforeItsFirstChunkAsksTheSameAgain) {
  PullAssembly assembly(200, Version(7), /*exact=*/false);
  assembly.Ask();
  EXPECT_EQ(assembly.End(kBroken), kBroken);
  const PullAssembly::Question question = assembly.Ask();
  EXPECT_EQ(question.version, Version(7));
  EXPECT_FALSE(question.exact);
  EXPECT_EQ(question.offset, 0);
}

TEST(PullAssemblyTest, WhereItsVersionIsGoneItBeginsAnewWithWhatIsWanted) {
  PullAssembly assembly = Half(/*exact=*/false);
  EXPECT_EQ(assembly.End(kBroken), kBroken);
  assembly.Ask();
  EXPECT_TRUE(absl::IsResourceExhausted(assembly.End(kGone)));
  EXPECT_TRUE(assembly.BeginAnew());
  EXPECT_EQ(assembly.received(), 0);
  const PullAssembly::Question question = assembly.Ask();
  EXPECT_EQ(question.version, Version(7));
  EXPECT_FALSE(question.exact);
  EXPECT_TRUE(assembly.Accept(Version(9), 0, 100).ok());
}

TEST(PullAssemblyTest, AVersionThatIsGoneIsTheEndWhereNoOtherWillDo) {
  PullAssembly exact = Half(/*exact=*/true);
  EXPECT_EQ(exact.End(kBroken), kBroken);
  exact.Ask();
  EXPECT_EQ(exact.End(kGone), kGone);
  EXPECT_FALSE(exact.BeginAnew());
  // The shard refuses what the caller itself has asked for.
  PullAssembly first(200, Version(7), /*exact=*/false);
  first.Ask();
  EXPECT_EQ(first.End(kGone), kGone);
}

TEST(PullAssemblyTest, AReadThatTheShardHasEndedBeginsAnew) {
  PullAssembly assembly = Half(/*exact=*/false);
  const absl::Status ended = absl::ResourceExhaustedError("too many");
  EXPECT_EQ(assembly.End(ended), ended);
  EXPECT_TRUE(assembly.BeginAnew());
  EXPECT_FALSE(assembly.BeginAnew()) << "once";
}

TEST(PullAssemblyTest, WhatIsSaidBehindTheLastChunkChangesNothing) {
  PullAssembly assembly = Half(/*exact=*/false);
  EXPECT_TRUE(assembly.Accept(Version(8), 100, 100).ok());
  EXPECT_TRUE(assembly.End(kBroken).ok());
  EXPECT_EQ(assembly.version(), Version(8));
}

}  // namespace
}  // namespace sluice

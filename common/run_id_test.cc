#include "common/run_id.h"

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(RunIdTest, EachIsAnotherOneAndMayBeGivenAgain) {
  const absl::Time now = absl::UnixEpoch();
  const std::string id = DrawRunId(now);
  EXPECT_EQ(id.size(), 16);
  EXPECT_TRUE(CheckRunId(id).ok());
  EXPECT_NE(DrawRunId(now + absl::Nanoseconds(1)), id);
}

TEST(RunIdTest, WhatALogOrACommandLineWouldTearApartIsRefused) {
  EXPECT_TRUE(CheckRunId("bert-large.2_a").ok());
  EXPECT_FALSE(CheckRunId("").ok());
  EXPECT_FALSE(CheckRunId(std::string(65, 'a')).ok());
  EXPECT_EQ(CheckRunId("a b").message(),
            "--run-id: must be 1 to 64 letters, digits, '.', '_' or '-', is "
            "\"a b\"");
}

}  // namespace
}  // namespace sluice

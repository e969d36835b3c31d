#include "cli/job_flags.h"

#include <CLI/CLI.hpp>
#include <string>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(JobFlagsTest, ASeedIsAWholeNumberOf64Bits) {
  EXPECT_EQ(WhyNoSeed("18446744073709551615"), "");
  EXPECT_EQ(WhyNoSeed("-1"),
            "expected a whole number from 0 to 2^64 - 1, is -1");
}

TEST(JobFlagsTest, ANumberLiesInItsRange) {
  const CLI::Validator share = NumberFrom(0, 1);
  for (const std::string good : {"0", "0.25", "1", "1e-3"}) {
    EXPECT_EQ(share(good), "") << good;
  }
  for (const std::string bad :
       {"-0.1", "1.1", "nan", "inf", "1e999", "half", ""}) {
    EXPECT_EQ(share(bad), "expected a number from 0 to 1, is " + bad);
  }
}

TEST(JobFlagsTest, AWholeNumberLiesInItsRange) {
  const CLI::Validator updates = WholeFrom(33, int64_t{1} << 40);
  for (const std::string good : {"33", "1000000", "1099511627776"}) {
    EXPECT_EQ(updates(good), "") << good;
  }
  for (const std::string bad :
       {"32", "1e6", "34.5", "many", "", "100000000000000000000"}) {
    EXPECT_EQ(updates(bad),
              "expected a whole number from 33 to 1099511627776, is " + bad);
  }
}

}  // namespace
}  // namespace sluice

#include "common/process/descriptor_limit.h"

#include <sys/resource.h>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(DescriptorLimitTest, TheSoftLimitIsRaisedToTheHardOne) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  limit.rlim_cur = 64;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(GetDescriptorLimit().soft, 64);
  RaiseDescriptorLimit();
  EXPECT_EQ(GetDescriptorLimit().soft, GetDescriptorLimit().hard);
  EXPECT_GT(GetDescriptorLimit().soft, 64);
}

}  // namespace
}  // namespace sluice

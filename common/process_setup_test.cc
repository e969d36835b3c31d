#include "common/process_setup.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "common/ignored_signal.h"

namespace sluice {
namespace {

TEST(ProcessSetupTest, ChildrenAreReapedByTheirParent) {
  signal(SIGCHLD, SIG_IGN);
  SetUpProcess();
  EXPECT_FALSE(IsIgnored(SIGCHLD));
}

}  // namespace
}  // namespace sluice

#include "common/process/run_on_threads.h"

#include <algorithm>
#include <atomic>
#include <system_error>

#include "gtest/gtest.h"

namespace sluice {
namespace {

TEST(RunOnThreadsTest, WorkRunsOnAsManyThreadsAsCanBeStarted) {
  for (const int most : {0, 2, 100}) {
    std::atomic<int> ran = 0;
    const auto work = [&ran] { ++ran; };
    int started = 0;
    RunOnThreads(
        4,
        [&] {
          if (started == most) {
            throw std::system_error(std::make_error_code(
                std::errc::resource_unavailable_try_again));
          }
          ++started;
          return std::thread(work);
        },
        work);
    EXPECT_EQ(ran, std::min(most, 3) + 1);
  }
}

}  // namespace
}  // namespace sluice

#include "kernels/cpu/threads.h"

#include <atomic>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/numerics.h"

extern "C" void omp_set_max_active_levels(int levels);

namespace sluice::kernels {
namespace {

constexpr int64_t kCostly = 1 << 20;  // Worth a thread for every index.

TEST(ThreadsTest, EveryIndexIsVisitedOnceByAnyNumberOfThreads) {
  std::thread([] {
    for (int threads : {1, 2, 3, 7}) {
      for (int64_t size : {0, 1, 2, 33}) {
        EnterComputeThreads(threads);
        std::vector<std::atomic<int>> visits(size);
        ParallelFor(threads, size, kCostly, [&](int64_t begin, int64_t end) {
          for (int64_t i = begin; i < end; ++i) ++visits[i];
        });
        for (const auto& count : visits) EXPECT_EQ(count, 1);
      }
    }
  }).join();
}

// As under OMP_MAX_ACTIVE_LEVELS=0 or OMP_THREAD_LIMIT=1.
TEST(ThreadsTest, EveryIndexIsVisitedOnceWhereOpenMpStartsFewerThreads) {
  std::thread([] {
    EXPECT_EQ(ThreadsThatStart(4), 4);
    omp_set_max_active_levels(0);
    EXPECT_EQ(ThreadsThatStart(4), 1);
    EnterComputeThreads(4);
    std::vector<std::atomic<int>> visits(33);
    ParallelFor(4, 33, kCostly, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) ++visits[i];
    });
    for (const auto& count : visits) EXPECT_EQ(count, 1);
  }).join();
}

TEST(ThreadsTest, EveryComputingThreadHasTheNumericMode) {
  std::thread([] {
    // The pool exists before, with threads that do not have the mode: a new
    // one would take it over from its maker.
    ParallelFor(3, 3, kCostly, [](int64_t begin, int64_t end) {});
    EnterComputeThreads(3);
    std::atomic<int> with_mode = 0;
    ParallelFor(3, 3, kCostly, [&](int64_t begin, int64_t end) {
      if (NumericModeIsSet()) with_mode += static_cast<int>(end - begin);
    });
    EXPECT_EQ(with_mode, 3);
  }).join();
}

}  // namespace
}  // namespace sluice::kernels

#ifndef SLUICE_COMMON_PROCESS_RUN_ON_THREADS_H_
#define SLUICE_COMMON_PROCESS_RUN_ON_THREADS_H_

#include <cstdint>
#include <system_error>
#include <thread>
#include <vector>

namespace sluice {

// Runs `work` on this thread and on `threads` - 1 that `start` returns, or on
// as many as the system lets one start. Returns when all have ended.
template <typename Start, typename Work>
void RunOnThreads(int64_t threads, const Start& start, const Work& work) {
  std::vector<std::thread> others;
  try {
    for (int64_t t = 1; t < threads; ++t) others.push_back(start());
  } catch (const std::system_error&) {  // As in a container with a limit.
  }
  work();
  for (std::thread& other : others) other.join();
}

}  // namespace sluice

#endif  // SLUICE_COMMON_PROCESS_RUN_ON_THREADS_H_

#ifndef SLUICE_CLI_RUN_IN_THREADS_H_
#define SLUICE_CLI_RUN_IN_THREADS_H_

#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/named_thread.h"

namespace sluice {

// Calls run(i) once for each i from 0 to n - 1, in `threads` threads of its
// own called NAME 0, NAME 1 and so on, each taking the next i as soon as it is
// done with one. Blocks until all have returned.
inline void RunInThreads(const std::string& name, int threads, int n,
                         const std::function<void(int)>& run) {
  std::atomic<int> next{0};
  std::vector<std::thread> all;
  for (int t = 0; t < threads; ++t) {
    all.push_back(StartThread(absl::StrCat(name, " ", t), [&] {
      for (int i = next++; i < n; i = next++) run(i);
    }));
  }
  for (std::thread& thread : all) thread.join();
}

}  // namespace sluice

#endif  // SLUICE_CLI_RUN_IN_THREADS_H_

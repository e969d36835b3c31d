#ifndef SLUICE_COMMON_PROCESS_NAMED_THREAD_H_
#define SLUICE_COMMON_PROCESS_NAMED_THREAD_H_

#include <pthread.h>

#include <string>
#include <thread>
#include <utility>

namespace sluice {

// Starts a thread that runs `body` under `name`, as debuggers and `top -H` show
// it (cut after 15 characters). The caller joins it.
template <typename Body>
std::thread StartThread(const std::string& name, Body body) {
  return std::thread([name = name.substr(0, 15), body = std::move(body)] {
    pthread_setname_np(pthread_self(), name.c_str());
    body();
  });
}

}  // namespace sluice

#endif  // SLUICE_COMMON_PROCESS_NAMED_THREAD_H_

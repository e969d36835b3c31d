#ifndef SLUICE_THIRD_PARTY_TSAN_ORIGINAL_H_
#define SLUICE_THIRD_PARTY_TSAN_ORIGINAL_H_

#include <dlfcn.h>

#include <cstdlib>

namespace sluice::tsan {

// The function of this mangled name that a definition in the test's own binary
// stands in front of. Function is its pointer type. Aborts where there is none.
template <typename Function>
Function Original(const char* name) {
  void* const address = dlsym(RTLD_NEXT, name);
  if (address == nullptr) std::abort();
  return reinterpret_cast<Function>(address);
}

}  // namespace sluice::tsan

#endif  // SLUICE_THIRD_PARTY_TSAN_ORIGINAL_H_

// Makes the threads of an OpenMP region known to ThreadSanitizer.
//
// Debian's libgomp is not built with -fsanitize=thread and parks its threads on
// bare futexes. With --config=tsan every test is linked with this file, whose
// GOMP_parallel takes the place of the library's, for our regions and oneDNN's:
// what came before a region happens before each of its threads' parts, and
// these before what comes after it.

#include <sanitizer/tsan_interface.h>

#include "third_party/tsan_original.h"

namespace {

struct Region {
  void (*body)(void*);
  void* data;
};

void RunPart(void* argument) {
  __tsan_acquire(argument);
  const Region& region = *static_cast<Region*>(argument);
  region.body(region.data);
  __tsan_release(argument);
}

}  // namespace

extern "C" void GOMP_parallel(void (*body)(void*), void* data, unsigned threads,
                              unsigned flags) {
  static const auto original =
      sluice::tsan::Original<decltype(&GOMP_parallel)>("GOMP_parallel");
  Region region{body, data};
  __tsan_release(&region);
  original(RunPart, &region, threads, flags);
  __tsan_acquire(&region);
}

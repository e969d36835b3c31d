#include "common/rpc/malloc_tuning.h"

#include <climits>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace sluice {

void TuneMallocForChunks() {
#if defined(__GLIBC__)
  // Never give the top of the heap back.
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  // Grows by room for several chunks in flight.
  mallopt(M_TOP_PAD, 64 << 20);
  // glibc's maximum. Every chunk (at most 4 MiB) comes from the heap and none
  // gets a mapping of its own.
  mallopt(M_MMAP_THRESHOLD, 32 << 20);
#endif
}

}  // namespace sluice

#include "common/process/descriptor_limit.h"

#include <sys/resource.h>

#include <limits>

namespace sluice {
namespace {

int64_t Bounded(rlim_t limit) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  return limit > static_cast<rlim_t>(kMost) ? kMost
                                            : static_cast<int64_t>(limit);
}

}  // namespace

DescriptorLimit GetDescriptorLimit() {
  rlimit limit = {};
  getrlimit(RLIMIT_NOFILE, &limit);
  return {Bounded(limit.rlim_cur), Bounded(limit.rlim_max)};
}

void RaiseDescriptorLimit() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace sluice

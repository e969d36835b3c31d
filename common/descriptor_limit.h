#ifndef SLUICE_COMMON_DESCRIPTOR_LIMIT_H_
#define SLUICE_COMMON_DESCRIPTOR_LIMIT_H_

#include <cstdint>

namespace sluice {

// How many files and connections a process may have open.
struct DescriptorLimit {
  int64_t soft = 0;  // What counts.
  int64_t hard = 0;  // What a process may raise it to.
};

// This process's; RLIM_INFINITY is the largest number.
DescriptorLimit GetDescriptorLimit();

// Raises the soft limit to the hard one. Call in `main`: the usual 1024 is for
// programs that call select(), and a shard has a connection to every worker.
// Where the system does not let it, nothing changes.
void RaiseDescriptorLimit();

}  // namespace sluice

#endif  // SLUICE_COMMON_DESCRIPTOR_LIMIT_H_

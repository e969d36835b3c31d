#ifndef SLUICE_COMMON_PROCESS_DESCRIPTOR_LIMIT_H_
#define SLUICE_COMMON_PROCESS_DESCRIPTOR_LIMIT_H_

#include <cstdint>

namespace sluice {

// How many files and sockets a process may have open.
struct DescriptorLimit {
  int64_t soft = 0;  // The limit in force.
  int64_t hard = 0;  // The limit up to which a process may raise it.
};

// The limits of this process; RLIM_INFINITY becomes the largest number.
DescriptorLimit GetDescriptorLimit();

// Raises the soft limit to the hard one. Call in `main`. The usual limit of
// 1024 exists for programs that call select(), and a shard has a connection to
// every worker. If the system refuses, nothing changes.
void RaiseDescriptorLimit();

}  // namespace sluice

#endif  // SLUICE_COMMON_PROCESS_DESCRIPTOR_LIMIT_H_

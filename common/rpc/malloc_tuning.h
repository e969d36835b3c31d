#ifndef SLUICE_COMMON_RPC_MALLOC_TUNING_H_
#define SLUICE_COMMON_RPC_MALLOC_TUNING_H_

namespace sluice {

// Makes glibc keep large blocks instead of returning them to the kernel.
// Otherwise every received chunk costs page faults, which slow an exchange from
// 3.4 to 2.5 GB/s on loopback. Call first in `main`, before other threads
// exist. Does nothing if malloc is not glibc's.
void TuneMallocForChunks();

}  // namespace sluice

#endif  // SLUICE_COMMON_RPC_MALLOC_TUNING_H_

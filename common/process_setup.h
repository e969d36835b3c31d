#ifndef SLUICE_COMMON_PROCESS_SETUP_H_
#define SLUICE_COMMON_PROCESS_SETUP_H_

namespace sluice {

// Makes what this process inherited as it must be, whoever started it. SIGCHLD
// has its default effect: where it is ignored, the kernel reaps children and
// nobody learns how they ended.
//
// Call first in `main`, before other threads exist.
void SetUpProcess();

}  // namespace sluice

#endif  // SLUICE_COMMON_PROCESS_SETUP_H_

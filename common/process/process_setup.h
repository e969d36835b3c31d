#ifndef SLUICE_COMMON_PROCESS_PROCESS_SETUP_H_
#define SLUICE_COMMON_PROCESS_PROCESS_SETUP_H_

namespace sluice {

// Makes what this process inherited as it must be, whoever started it:
//
//   SIGPIPE, SIGXFSZ   are ignored: a write to a pipe that nobody reads, or
//                      beyond the largest size of a file, is an error
//   SIGCHLD            has its default effect: where it is ignored, the kernel
//                      reaps children and nobody learns how they ended
//   descriptors 0-2    those that are closed become /dev/null, or what is
//                      opened next would get the log's lines
//   std::terminate     says of a std::bad_alloc that memory is short
//
// Call first in `main`, before other threads exist.
void SetUpProcess();

// Undoes what SetUpProcess did to signals, for a program that is none of ours:
// what is ignored stays so through exec. Call between fork and exec
// (async-signal-safe).
void RestoreSignals();

}  // namespace sluice

#endif  // SLUICE_COMMON_PROCESS_PROCESS_SETUP_H_

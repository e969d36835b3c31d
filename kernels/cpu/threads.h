#ifndef SLUICE_KERNELS_CPU_THREADS_H_
#define SLUICE_KERNELS_CPU_THREADS_H_

#include <cstdint>

#include "absl/functional/function_ref.h"

namespace sluice::kernels {

// How many threads OpenMP starts if this thread asks for `threads`: fewer where
// it is bounded, as by OMP_THREAD_LIMIT.
int ThreadsThatStart(int threads);

// Makes the calling thread compute with `threads` OpenMP threads (itself and
// threads - 1 of its pool), and sets the numeric mode in each of them. oneDNN
// of this build computes in that pool.
void EnterComputeThreads(int threads);

// Calls f(begin, end) on `threads` threads, or on as many as start, for
// consecutive parts of [0, size), some perhaps empty, and returns when all are
// done. Small sizes stay on the calling thread: `work` is the cost of one
// index, in floats touched. REQUIRES: this thread has called
// EnterComputeThreads(threads).
void ParallelFor(int threads, int64_t size, int64_t work,
                 absl::FunctionRef<void(int64_t begin, int64_t end)> f);

}  // namespace sluice::kernels

#endif  // SLUICE_KERNELS_CPU_THREADS_H_

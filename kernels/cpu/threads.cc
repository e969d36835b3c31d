#include "kernels/cpu/threads.h"

#include "kernels/numerics.h"

// libgomp's own interface, which `#pragma omp parallel` of gcc compiles to.
// Called directly so that every compiler uses the pool oneDNN computes in:
// clang's pragma would bring a second runtime with threads of its own.
extern "C" {
void omp_set_num_threads(int threads);
void omp_set_dynamic(int dynamic);
int omp_get_thread_num();
int omp_get_num_threads();
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads,
                   unsigned flags);
}

namespace sluice::kernels {
namespace {

// Below so many floats per thread, waking a thread (some microseconds) costs
// more than the work it takes over.
constexpr int64_t kFloatsWorthAThread = 32768;

struct Parts {
  absl::FunctionRef<void(int64_t, int64_t)> f;
  int64_t size;
};

// Divides by the threads that came, not by those that were asked for: OpenMP
// may start fewer, and every index is visited all the same.
void RunPart(void* data) {
  const Parts& parts = *static_cast<Parts*>(data);
  const int64_t i = omp_get_thread_num(), threads = omp_get_num_threads();
  parts.f(parts.size * i / threads, parts.size * (i + 1) / threads);
}

}  // namespace

int ThreadsThatStart(int threads) {
  if (threads == 1) return 1;
  int started = 0;
  omp_set_dynamic(0);
  GOMP_parallel(
      [](void* count) {
        if (omp_get_thread_num() > 0) return;
        *static_cast<int*>(count) = omp_get_num_threads();
      },
      &started, threads, 0);
  return started;
}

void EnterComputeThreads(int threads) {
  omp_set_dynamic(0);
  omp_set_num_threads(threads);
  if (threads == 1) return SetNumericMode();
  GOMP_parallel([](void*) { SetNumericMode(); }, nullptr, threads, 0);
}

void ParallelFor(int threads, int64_t size, int64_t work,
                 absl::FunctionRef<void(int64_t begin, int64_t end)> f) {
  if (threads == 1 || size * work < kFloatsWorthAThread * threads) {
    return f(0, size);
  }
  Parts parts{f, size};
  GOMP_parallel(RunPart, &parts, threads, 0);
}

}  // namespace sluice::kernels

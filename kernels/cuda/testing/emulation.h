#ifndef SLUICE_KERNELS_CUDA_TESTING_EMULATION_H_
#define SLUICE_KERNELS_CUDA_TESTING_EMULATION_H_

#include <setjmp.h>
#include <ucontext.h>

#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

// What the .cu files take from CUDA, on the host: so that a machine without a
// GPU can run every own kernel, a block at a time and each of its threads as a
// fiber that runs until it waits for others. For tests; nothing is known of
// limits or of speed. The names are CUDA's.
//
// Not thread-safe: one launch at a time.

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(threads)

namespace sluice::kernels::cuda {

struct Index3 {
  uint32_t x = 0;
  uint32_t y = 0;
};

inline Index3 threadIdx, blockIdx, gridDim;

namespace emulation {

inline constexpr uint32_t kLanes = 32;

// Where threads wait for each other.
struct Barrier {
  uint32_t size;
  uint32_t arrived = 0;
  uint32_t passed = 0;  // Times that all had arrived.
};

// What runs, on a stack of its own, until it lets another run.
class Context {
 public:
  Context();  // On this thread's own stack.
  // The next SwitchTo calls `enter`, which must not return, on `stack`.
  Context(char* stack, size_t bytes, void (*enter)());
  ~Context();
  Context(const Context&) = delete;
  // REQUIRES: this runs. Returns when somebody switches back.
  void SwitchTo(Context* next);

 private:
  ucontext_t first_;
  jmp_buf later_;
  bool began_;  // `later_` says where it goes on.
  void* const tsan_;
};

// The threads of one block.
class Block {
 public:
  // One of so many threads. It is made once and stays: what a sanitizer keeps
  // of a fiber costs it more to make than the fiber takes to run.
  static Block& Of(uint32_t threads);
  explicit Block(uint32_t threads);

  // Runs `body` as every thread to its end. A thread that waits for one that
  // ended, or waits elsewhere, is an error of the kernel.
  void Run(const std::function<void()>& body);

  void WaitForAll() { Wait(&all_); }
  void WaitForWarp() { Wait(&MyWarp().barrier); }

  // `value` of the lane `other` of the same warp.
  template <typename T>
  T Exchange(T value, uint32_t other) {
    static_assert(sizeof(T) <= sizeof(uint64_t));
    Warp& warp = MyWarp();
    std::memcpy(&warp.slots[threadIdx.x % kLanes], &value, sizeof(T));
    Wait(&warp.barrier);
    T result;
    std::memcpy(&result, &warp.slots[other], sizeof(T));
    Wait(&warp.barrier);
    return result;
  }

  // Bit l says whether `value` is true in lane l of the same warp.
  uint32_t Ballot(bool value) {
    Warp& warp = MyWarp();
    warp.slots[threadIdx.x % kLanes] = value ? 1 : 0;
    Wait(&warp.barrier);
    uint32_t bits = 0;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      bits |= static_cast<uint32_t>(warp.slots[lane]) << lane;
    }
    Wait(&warp.barrier);
    return bits;
  }

 private:
  struct Fiber {
    std::unique_ptr<char[]> stack;
    std::unique_ptr<Context> context;
    bool ended = false;
  };
  struct Warp {
    Barrier barrier;
    uint64_t slots[kLanes];
  };

  static void Enter();
  Warp& MyWarp() { return warps_[threadIdx.x / kLanes]; }
  void SwitchToHost();
  void Wait(Barrier* barrier);

  const std::function<void()>* body_ = nullptr;  // While it runs.
  Barrier all_;
  std::vector<Warp> warps_;
  std::vector<Fiber> fibers_;
  std::optional<Context> host_;  // While it runs.
  bool progress_ = false;        // Since all fibers had their turn.
};

extern Block* block;  // That runs.

// What was called, in its order.
using Calls = std::vector<std::function<void()>>;

// Where calls go instead of being executed; nullptr: nowhere.
inline Calls* recording = nullptr;

// An emulated GPU's memory, and what it has been called to do and has not done.
// As on a GPU, a call returns before it is done; here it is done as late as it
// may be, when somebody waits. All emulated GPUs share one of these.
class Stream {
 public:
  void Push(std::function<void()> call) { calls_.push_back(std::move(call)); }
  void Wait() { WaitUntil(called()); }
  // Between two stretches of calls: waits for all but the last `ahead`.
  void Pace(size_t ahead);

  void Allocated(const void* array, int64_t bytes);
  void Freed(const void* array) { memory_.erase(array); }
  // Whether a pointer is into an array or at its end, or nullptr.
  bool Holds(const void* pointer) const;

  // Memory of the host that the GPU knows.
  void Registered(const void* host, int64_t bytes);
  void Unregistered(const void* host) { registered_.erase(host); }
  bool IsRegistered(const void* host, int64_t bytes) const;

 private:
  size_t called() const { return done_ + calls_.size(); }
  // Until so many of all calls are done.
  void WaitUntil(size_t done);

  std::deque<std::function<void()>> calls_;  // That are not done.
  size_t done_ = 0;
  std::deque<size_t> marks_;  // called() at each Pace that was not waited for.
  // Beginnings and ends.
  std::map<const void*, const void*> memory_, registered_;
};

// That of the emulated GPUs; nullptr where there is none: kernels that are
// called by themselves run at once, on any memory.
inline Stream* stream = nullptr;

// Executes `call`: when the stream comes to it, or when what is recorded runs.
template <typename F>
void Execute(F call) {
  if (recording != nullptr) {
    recording->push_back(std::move(call));
  } else if (stream != nullptr) {
    stream->Push(std::move(call));
  } else {
    call();
  }
}

// Whether a kernel may be given `argument`.
template <typename T>
bool MayBeGiven(const T& argument) {
  if constexpr (std::is_pointer_v<T>) {
    return stream == nullptr || stream->Holds(argument);
  }
  return true;
}

inline constexpr int kNotOnDevice = 700;  // An illegal address, as CUDA has it.

template <typename F>
void ForEachBlock(Index3 grid, const F& run) {
  gridDim = grid;
  for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y) {
    for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) run();
  }
}

// Calls f() as every thread of every block of the grid.
template <typename F>
void Run(Index3 grid, uint32_t threads, const F& f) {
  Block& shared = Block::Of(threads);
  const std::function<void()> body = f;
  ForEachBlock(grid, [&] { shared.Run(body); });
}

// The same for threads that do not wait for each other.
template <typename F>
void RunEach(Index3 grid, uint32_t threads, const F& f) {
  ForEachBlock(grid, [&] {
    for (threadIdx.x = 0; threadIdx.x < threads; ++threadIdx.x) f();
  });
}

}  // namespace emulation

inline void __syncthreads() { emulation::block->WaitForAll(); }
inline void __syncwarp() { emulation::block->WaitForWarp(); }

inline uint32_t __ballot_sync(uint32_t, bool value) {
  return emulation::block->Ballot(value);
}
// Where the lowest bit is, counted from 1; 0 without one.
inline int __ffs(uint32_t bits) {
  return __builtin_ffs(static_cast<int>(bits));
}

template <typename T>
T __shfl_sync(uint32_t, T value, uint32_t lane) {
  return emulation::block->Exchange(value, lane);
}
template <typename T>
T __shfl_xor_sync(uint32_t, T value, uint32_t mask) {
  const uint32_t lane = threadIdx.x % emulation::kLanes;
  return emulation::block->Exchange(value, lane ^ mask);
}
// Lanes that have none below them keep their own.
template <typename T>
T __shfl_down_sync(uint32_t, T value, uint32_t step) {
  const uint32_t lane = threadIdx.x % emulation::kLanes;
  const bool inside = lane + step < emulation::kLanes;
  return emulation::block->Exchange(value, inside ? lane + step : lane);
}

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_TESTING_EMULATION_H_

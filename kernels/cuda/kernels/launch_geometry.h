#ifndef SLUICE_KERNELS_CUDA_KERNELS_LAUNCH_GEOMETRY_H_
#define SLUICE_KERNELS_CUDA_KERNELS_LAUNCH_GEOMETRY_H_

#include <algorithm>
#include <cstdint>

// How work is cut into blocks of threads. A function of sizes alone, never of
// the GPU's multiprocessors, so that sums are taken in the same order on each.
namespace sluice::kernels::cuda {

// Threads of every block: 8 warps. A multiprocessor of sm_80 or sm_90 holds
// 2048 threads, so 8 blocks, where a kernel takes at most 32 registers, and a
// block that ends early leaves an eighth of it idle. 2048 threads with 16 bytes
// each in flight are 32 KiB; an H100 needs about 25 KiB a multiprocessor to
// keep its memory busy (3.35 TB/s, 1 us, 132 multiprocessors).
inline constexpr uint32_t kBlock = 256;
inline constexpr uint32_t kWarp = 32;
inline constexpr uint32_t kWarpsOfBlock = kBlock / kWarp;

// No array has more floats: indices and FastDivide take 31 bits.
inline constexpr int64_t kLargestArray = (int64_t{1} << 31) - 1;

inline constexpr uint32_t Ceiling(uint32_t n, uint32_t d) {
  return n / d + (n % d != 0);
}

// Blocks for a thread each of `count`.
inline constexpr uint32_t Blocks(uint32_t count) {
  return Ceiling(count, kBlock);
}

// Blocks that keep a large GPU busy: some for each multiprocessor.
inline constexpr uint32_t kManyBlocks = 1024;

// Consecutive parts into which a sum of `count` numbers is cut, 1 or more, each
// by a block of its own, for at least `least` numbers a part and at most `most`
// parts; the last may be shorter.
struct Splits {
  uint32_t parts;
  uint32_t size;  // Of a part, 1 or more.

  static constexpr Splits Of(uint32_t count, uint32_t least, uint32_t most) {
    const uint32_t wanted = std::clamp(count / least, 1u, most);
    const uint32_t size = std::max(Ceiling(count, wanted), 1u);
    return {std::max(Ceiling(count, size), 1u), size};
  }
};

// Numbers that a thread adds up at least, so that the steps of adding up a
// block's threads are few beside them.
inline constexpr uint32_t kLeastOfThread = 16;

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_KERNELS_LAUNCH_GEOMETRY_H_

#ifndef SLUICE_PS_SERVER_SHARD_ALIGNED_FLOATS_H_
#define SLUICE_PS_SERVER_SHARD_ALIGNED_FLOATS_H_

#include <cstdint>
#include <memory>
#include <new>

namespace sluice {

struct FreeAligned {
  void operator()(float* floats) const {
    ::operator delete[](floats, std::align_val_t(64));
  }
};

// Floats that begin on a cache line; what they hold at first is undefined.
using AlignedFloats = std::unique_ptr<float[], FreeAligned>;

inline AlignedFloats MakeAlignedFloats(int64_t count) {
  return AlignedFloats(static_cast<float*>(
      ::operator new[](count * sizeof(float), std::align_val_t(64))));
}

}  // namespace sluice

#endif  // SLUICE_PS_SERVER_SHARD_ALIGNED_FLOATS_H_

#ifndef SLUICE_KERNELS_CUDA_STAGING_H_
#define SLUICE_KERNELS_CUDA_STAGING_H_

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace sluice::kernels::cuda {

// Copies between the host's pageable memory and a GPU in one stream, through
// two pinned pieces, so that the host copies one while the GPU's engine moves
// the other.
//
// Not thread-safe: call from the thread that computes.
class Staging {
 public:
  // `stream` must outlive it.
  static absl::StatusOr<std::unique_ptr<Staging>> Create(cudaStream_t stream);
  ~Staging();

  // `host` may change when it returns; the stream brings the bytes.
  absl::Status ToDevice(const void* host, void* device, int64_t bytes);
  // Waits until `host` holds the bytes.
  absl::Status ToHost(const void* device, void* host, int64_t bytes);

 private:
  struct Piece {
    char* memory = nullptr;
    cudaEvent_t moved = nullptr;  // The GPU's engine is done with it.
  };

  explicit Staging(cudaStream_t stream) : stream_(stream) {}
  Piece& Next() { return pieces_[turn_++ % 2]; }

  const cudaStream_t stream_;
  Piece pieces_[2];
  unsigned turn_ = 0;
};

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_STAGING_H_

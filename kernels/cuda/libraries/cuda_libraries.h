#ifndef SLUICE_KERNELS_CUDA_LIBRARIES_CUDA_LIBRARIES_H_
#define SLUICE_KERNELS_CUDA_LIBRARIES_CUDA_LIBRARIES_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/gpu_device.h"

// The parts of the device on a GPU: what wraps CUDA and each library, and their
// errors as status.
namespace sluice::kernels::cuda {

// kInternal with `what` was called and what the library says.
absl::Status CudaStatus(cudaError_t error, absl::string_view what);
absl::Status CublasStatus(cublasStatus_t status, absl::string_view what);
absl::Status CudnnStatus(cudnnStatus_t status, absl::string_view what);

// As GpuDevice::PrepareProduct; runs in `stream`. Both must outlive it.
absl::StatusOr<std::unique_ptr<Product>> PrepareCublasProduct(
    cublasLtHandle_t handle, cudaStream_t stream, const ProductShape& shape);

// As GpuDevice::PrepareConvolution; runs in the handle's stream. `handle` must
// outlive it.
absl::StatusOr<std::unique_ptr<Convolution>> PrepareCudnnConvolution(
    cudnnHandle_t handle, ConvolutionKind kind, Precision precision,
    const Conv2dShape& shape, int64_t samples);

// Copies between the host's pageable memory and a GPU in one stream, through
// two pinned pieces, so that the host copies one while the GPU's engine moves
// the other.
//
// Not thread-safe: call from the compute thread.
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

// As Accelerator::Register, of GPU number `gpu`.
absl::StatusOr<std::unique_ptr<Registration>> RegisterWithCuda(void* host,
                                                               int64_t bytes,
                                                               int gpu);

// An upload in a stream of its own that `compute` waits for, so that the GPU's
// copy engine works beside its kernels; what is not registered goes through
// pinned pieces. `compute` must outlive it.
absl::StatusOr<std::unique_ptr<Upload>> MakeCudaUpload(cudaStream_t compute);

// A download in a stream of its own that waits for `compute`, so that the GPU's
// copy engine works beside its kernels; what is not registered comes through
// pinned memory. `compute` must outlive it.
absl::StatusOr<std::unique_ptr<Download>> MakeCudaDownload(cudaStream_t compute,
                                                           int64_t bytes);

// GpuDevice::RecordStream of `stream`, as a CUDA graph, which is launched into
// the same stream. `stream` must outlive it.
absl::StatusOr<std::unique_ptr<Recording>> RecordGraph(
    cudaStream_t stream, absl::FunctionRef<absl::Status()> calls);

// Frees with a library's function. A failure while freeing cannot be helped,
// and has shown itself in the calls before.
template <auto kFree>
struct FreeWith {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_LIBRARIES_CUDA_LIBRARIES_H_

#include "kernels/cuda/staging.h"

#include <algorithm>
#include <cstring>

#include "common/status_macros.h"
#include "kernels/cuda/cuda_libraries.h"

namespace sluice::kernels::cuda {
namespace {

// Large enough that starting a copy (about 10 us) is little beside moving it
// (about 160 us over PCIe 4), small enough to stay in the processor's cache.
constexpr int64_t kPieceBytes = 4 << 20;

}  // namespace

absl::StatusOr<std::unique_ptr<Staging>> Staging::Create(cudaStream_t stream) {
  auto staging = std::unique_ptr<Staging>(new Staging(stream));
  for (Piece& piece : staging->pieces_) {
    SLUICE_RETURN_IF_ERROR(CudaStatus(
        cudaMallocHost(reinterpret_cast<void**>(&piece.memory), kPieceBytes),
        "pinned memory of 4 MiB"));
    SLUICE_RETURN_IF_ERROR(CudaStatus(
        cudaEventCreateWithFlags(&piece.moved, cudaEventDisableTiming),
        "cudaEventCreate"));
  }
  return staging;
}

Staging::~Staging() {
  for (Piece& piece : pieces_) {
    if (piece.moved != nullptr) {
      cudaEventSynchronize(piece.moved);
      cudaEventDestroy(piece.moved);
    }
    if (piece.memory != nullptr) cudaFreeHost(piece.memory);
  }
}

absl::Status Staging::ToDevice(const void* host, void* device, int64_t bytes) {
  for (int64_t at = 0; at < bytes; at += kPieceBytes) {
    const int64_t size = std::min(kPieceBytes, bytes - at);
    Piece& piece = Next();
    SLUICE_RETURN_IF_ERROR(
        CudaStatus(cudaEventSynchronize(piece.moved), "a copy before"));
    std::memcpy(piece.memory, static_cast<const char*>(host) + at, size);
    SLUICE_RETURN_IF_ERROR(CudaStatus(
        cudaMemcpyAsync(static_cast<char*>(device) + at, piece.memory, size,
                        cudaMemcpyHostToDevice, stream_),
        "copy to the device"));
    SLUICE_RETURN_IF_ERROR(
        CudaStatus(cudaEventRecord(piece.moved, stream_), "cudaEventRecord"));
  }
  return absl::OkStatus();
}

absl::Status Staging::ToHost(const void* device, void* host, int64_t bytes) {
  // A piece ahead: `at` is where the next one to be moved begins, `taken` where
  // the next one to be copied does.
  int64_t at = 0;
  const auto move = [&]() -> absl::Status {
    const int64_t size = std::min(kPieceBytes, bytes - at);
    if (size <= 0) return absl::OkStatus();
    Piece& piece = Next();
    SLUICE_RETURN_IF_ERROR(CudaStatus(
        cudaMemcpyAsync(piece.memory, static_cast<const char*>(device) + at,
                        size, cudaMemcpyDeviceToHost, stream_),
        "copy to the host"));
    at += size;
    return CudaStatus(cudaEventRecord(piece.moved, stream_), "cudaEventRecord");
  };
  unsigned reading = turn_;
  SLUICE_RETURN_IF_ERROR(move());
  for (int64_t taken = 0; taken < bytes; taken += kPieceBytes) {
    SLUICE_RETURN_IF_ERROR(move());
    const Piece& piece = pieces_[reading++ % 2];
    SLUICE_RETURN_IF_ERROR(
        CudaStatus(cudaEventSynchronize(piece.moved), "copy to the host"));
    std::memcpy(static_cast<char*>(host) + taken, piece.memory,
                std::min(kPieceBytes, bytes - taken));
  }
  return absl::OkStatus();
}

}  // namespace sluice::kernels::cuda

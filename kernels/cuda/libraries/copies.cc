// Copies between the host and a GPU: both ways in the stream of the operations
// (Staging), and beside them in streams of their own. The GPU's engine moves
// bytes from and to pinned memory only: what is registered is that; all else is
// copied to pinned memory and from it by the thread that asks.
#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/libraries/cuda_libraries.h"

namespace sluice::kernels::cuda {
namespace {

// Large enough that starting a copy (about 10 us) is little beside moving it
// (about 160 us over PCIe 4), small enough to stay in the processor's cache.
constexpr int64_t kPieceBytes = 4 << 20;

bool IsPinned(const void* host, int64_t bytes) {
  if (bytes == 0) return false;
  const auto* const first = static_cast<const char*>(host);
  for (const char* byte : {first, first + bytes - 1}) {
    cudaPointerAttributes attributes;
    if (cudaPointerGetAttributes(&attributes, byte) != cudaSuccess) {
      cudaGetLastError();  // Later calls are well.
      return false;
    }
    if (attributes.type != cudaMemoryTypeHost) return false;
  }
  return true;
}

class CudaRegistration : public Registration {
 public:
  CudaRegistration(void* host, int gpu) : host_(host), gpu_(gpu) {}
  ~CudaRegistration() override {
    cudaSetDevice(gpu_);
    cudaDeviceSynchronize();
    cudaHostUnregister(host_);
  }

 private:
  void* const host_;
  const int gpu_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Registration>> RegisterWithCuda(void* host,
                                                               int64_t bytes,
                                                               int gpu) {
  const cudaError_t error =
      cudaHostRegister(host, bytes, cudaHostRegisterDefault);
  if (error != cudaSuccess) cudaGetLastError();  // It is reported here.
  SLUICE_RETURN_IF_ERROR(CudaStatus(error, "cudaHostRegister"));
  return std::make_unique<CudaRegistration>(host, gpu);
}

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

namespace {

// Two streams that wait for each other, on the GPU, without the host:
//
//  - Begin: copies wait for what has been called so far, which may still read
//    the vector that is overwritten now.
//  - Send: what is called from here on waits for this part and those before it.
//    So the first layer runs while the others' weights come.
class CudaUpload : public Upload {
 public:
  explicit CudaUpload(cudaStream_t compute) : compute_(compute) {}
  ~CudaUpload() override {
    staging_.reset();
    if (mark_ != nullptr) cudaEventDestroy(mark_);
    if (stream_ != nullptr) {
      cudaStreamSynchronize(stream_);
      cudaStreamDestroy(stream_);
    }
  }

  absl::Status Open();

  absl::Status Begin() override { return Wait(compute_, stream_); }
  absl::Status Send(const void* host, void* device, int64_t bytes) override {
    SLUICE_RETURN_IF_ERROR(
        IsPinned(host, bytes)
            ? CudaStatus(cudaMemcpyAsync(device, host, bytes,
                                         cudaMemcpyHostToDevice, stream_),
                         "copy to the device")
            : staging_->ToDevice(host, device, bytes));
    return Wait(stream_, compute_);
  }

 private:
  // What comes next in `waiting` begins when what is in `first` is done.
  absl::Status Wait(cudaStream_t first, cudaStream_t waiting) {
    SLUICE_RETURN_IF_ERROR(
        CudaStatus(cudaEventRecord(mark_, first), "cudaEventRecord"));
    // It keeps to this record of the event when that is recorded again.
    return CudaStatus(cudaStreamWaitEvent(waiting, mark_, 0),
                      "cudaStreamWaitEvent");
  }

  const cudaStream_t compute_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t mark_ = nullptr;
  std::unique_ptr<Staging> staging_;
};

absl::Status CudaUpload::Open() {
  SLUICE_RETURN_IF_ERROR(
      CudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                 "cudaStreamCreate"));
  SLUICE_RETURN_IF_ERROR(
      CudaStatus(cudaEventCreateWithFlags(&mark_, cudaEventDisableTiming),
                 "cudaEventCreate"));
  SLUICE_ASSIGN_OR_RETURN(staging_, Staging::Create(stream_));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Upload>> MakeCudaUpload(cudaStream_t compute) {
  auto upload = std::make_unique<CudaUpload>(compute);
  SLUICE_RETURN_IF_ERROR(upload->Open());
  return upload;
}

namespace {

// Parts of a vector travel in a stream of their own, beside what is still
// computed; a part waits for what was computed before Begin, and for nothing
// after it.
//
//   compute   layer 3   layer 2   layer 1
//   copies              part 3    part 2    part 1
//   host                Take: no  Take: part 3
//
// A copy beside others needs pinned memory. For parts whose own is not, memory_
// has room for a whole vector, so a part never waits for room: parts lie in it
// one behind the other, and the first one after all were taken lies at its
// beginning again.
class CudaDownload : public Download {
 public:
  CudaDownload(cudaStream_t compute, int64_t bytes)
      : compute_(compute), bytes_(bytes) {}
  ~CudaDownload() override {
    if (stream_ != nullptr) {
      cudaStreamSynchronize(stream_);
      cudaStreamDestroy(stream_);
    }
    for (const cudaEvent_t event : events_) cudaEventDestroy(event);
    if (memory_ != nullptr) cudaFreeHost(memory_);
  }

  absl::Status Open();

  absl::Status Begin(const void* device, void* host, int64_t bytes) override;
  absl::StatusOr<bool> Take(bool wait) override;
  absl::Status Drop() override {
    for (const Part& part : parts_) idle_.push_back(part.moved);
    parts_.clear();
    return CudaStatus(cudaStreamSynchronize(stream_), "copies to the host");
  }

 private:
  struct Part {
    int64_t at;  // In `memory_`, unless it is pinned.
    int64_t bytes;
    void* host;
    bool pinned;
    cudaEvent_t moved;
  };

  absl::StatusOr<cudaEvent_t> NewEvent();
  absl::Status AllocateMemory();

  const cudaStream_t compute_;
  const int64_t bytes_;
  cudaStream_t stream_ = nullptr;
  char* memory_ = nullptr;  // Pinned; nullptr until a part needs it.
  std::vector<cudaEvent_t> events_;
  cudaEvent_t computed_ = nullptr;  // Of `events_`, as all here.

  std::vector<cudaEvent_t> idle_;  // Of no part.
  std::deque<Part> parts_;
};

absl::StatusOr<cudaEvent_t> CudaDownload::NewEvent() {
  cudaEvent_t event = nullptr;
  SLUICE_RETURN_IF_ERROR(
      CudaStatus(cudaEventCreateWithFlags(&event, cudaEventDisableTiming),
                 "cudaEventCreate"));
  events_.push_back(event);
  return event;
}

absl::Status CudaDownload::Open() {
  SLUICE_RETURN_IF_ERROR(
      CudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                 "cudaStreamCreate"));
  SLUICE_ASSIGN_OR_RETURN(computed_, NewEvent());
  return absl::OkStatus();
}

absl::Status CudaDownload::AllocateMemory() {
  const cudaError_t error = cudaMallocHost(reinterpret_cast<void**>(&memory_),
                                           std::max<int64_t>(bytes_, 1));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // It is reported here; later calls are well.
    return absl::ResourceExhaustedError(
        absl::StrCat("no pinned memory of ", bytes_, " bytes on the host"));
  }
  return CudaStatus(error, absl::StrCat("pinned memory of ", bytes_, " bytes"));
}

absl::Status CudaDownload::Begin(const void* device, void* host,
                                 int64_t bytes) {
  // One behind the other, from the beginning again when all were taken.
  const int64_t at =
      parts_.empty() ? 0 : parts_.back().at + parts_.back().bytes;
  SLUICE_CHECK(at + bytes <= bytes_);
  Part part = {.at = at,
               .bytes = bytes,
               .host = host,
               .pinned = IsPinned(host, bytes),
               .moved = nullptr};
  if (!part.pinned && memory_ == nullptr) {
    SLUICE_RETURN_IF_ERROR(AllocateMemory());
  }
  if (idle_.empty()) {
    SLUICE_ASSIGN_OR_RETURN(part.moved, NewEvent());
  } else {
    part.moved = idle_.back();
    idle_.pop_back();
  }
  SLUICE_RETURN_IF_ERROR(
      CudaStatus(cudaEventRecord(computed_, compute_), "cudaEventRecord"));
  SLUICE_RETURN_IF_ERROR(CudaStatus(cudaStreamWaitEvent(stream_, computed_, 0),
                                    "cudaStreamWaitEvent"));
  SLUICE_RETURN_IF_ERROR(
      CudaStatus(cudaMemcpyAsync(part.pinned ? host : memory_ + at, device,
                                 bytes, cudaMemcpyDeviceToHost, stream_),
                 "copy to the host"));
  parts_.push_back(part);
  return CudaStatus(cudaEventRecord(part.moved, stream_), "cudaEventRecord");
}

absl::StatusOr<bool> CudaDownload::Take(bool wait) {
  const Part part = parts_.front();
  const cudaError_t error =
      wait ? cudaEventSynchronize(part.moved) : cudaEventQuery(part.moved);
  if (error == cudaErrorNotReady) return false;
  SLUICE_RETURN_IF_ERROR(CudaStatus(error, "copy to the host"));
  if (!part.pinned && part.bytes > 0) {
    std::memcpy(part.host, memory_ + part.at, part.bytes);
  }
  idle_.push_back(part.moved);
  parts_.pop_front();
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Download>> MakeCudaDownload(cudaStream_t compute,
                                                           int64_t bytes) {
  auto download = std::make_unique<CudaDownload>(compute, bytes);
  SLUICE_RETURN_IF_ERROR(download->Open());
  return download;
}

}  // namespace sluice::kernels::cuda

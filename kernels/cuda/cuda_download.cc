// Parts of a vector travel in a stream of their own, beside what is still
// computed; a part waits for what was computed before Begin, and for nothing
// after it.
//
//   compute   layer 3   layer 2   layer 1
//   copies              part 3    part 2    part 1
//   host                Take: no  Take: part 3
//
// A copy beside others needs pinned memory. memory_ has room for a whole
// vector, so a part never waits for room: parts lie in it one behind the other,
// and the first one after all were taken lies at its beginning again.
#include "kernels/cuda/cuda_download.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/cuda_libraries.h"

namespace sluice::kernels::cuda {
namespace {

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

  absl::Status Begin(const void* device, int64_t bytes) override;
  absl::StatusOr<bool> Take(void* host, bool wait) override;
  absl::Status Drop() override {
    for (const Part& part : parts_) idle_.push_back(part.moved);
    parts_.clear();
    return CudaStatus(cudaStreamSynchronize(stream_), "copies to the host");
  }

 private:
  struct Part {
    int64_t at;  // In `memory_`.
    int64_t bytes;
    cudaEvent_t moved;
  };

  absl::StatusOr<cudaEvent_t> NewEvent();

  const cudaStream_t compute_;
  const int64_t bytes_;
  cudaStream_t stream_ = nullptr;
  char* memory_ = nullptr;  // Pinned.
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
  const cudaError_t error = cudaMallocHost(reinterpret_cast<void**>(&memory_),
                                           std::max<int64_t>(bytes_, 1));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // It is reported here; later calls are well.
    return absl::ResourceExhaustedError(
        absl::StrCat("no pinned memory of ", bytes_, " bytes on the host"));
  }
  return CudaStatus(error, absl::StrCat("pinned memory of ", bytes_, " bytes"));
}

absl::Status CudaDownload::Begin(const void* device, int64_t bytes) {
  // One behind the other, from the beginning again when all were taken.
  const int64_t at =
      parts_.empty() ? 0 : parts_.back().at + parts_.back().bytes;
  SLUICE_CHECK(at + bytes <= bytes_);
  Part part = {.at = at, .bytes = bytes, .moved = nullptr};
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
      CudaStatus(cudaMemcpyAsync(memory_ + at, device, bytes,
                                 cudaMemcpyDeviceToHost, stream_),
                 "copy to the host"));
  parts_.push_back(part);
  return CudaStatus(cudaEventRecord(part.moved, stream_), "cudaEventRecord");
}

absl::StatusOr<bool> CudaDownload::Take(void* host, bool wait) {
  const Part part = parts_.front();
  const cudaError_t error =
      wait ? cudaEventSynchronize(part.moved) : cudaEventQuery(part.moved);
  if (error == cudaErrorNotReady) return false;
  SLUICE_RETURN_IF_ERROR(CudaStatus(error, "copy to the host"));
  if (part.bytes > 0) std::memcpy(host, memory_ + part.at, part.bytes);
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

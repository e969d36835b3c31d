// Two streams that wait for each other, on the GPU, without the host:
//
//  - Begin: copies wait for what has been called so far, which may still read
//    the vector that is overwritten now.
//  - Send: what is called from here on waits for this part and those before it.
//    So the first layer runs while the others' weights come.
#include "kernels/cuda/cuda_upload.h"

#include "common/status_macros.h"
#include "kernels/cuda/cuda_libraries.h"
#include "kernels/cuda/staging.h"

namespace sluice::kernels::cuda {
namespace {

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
    SLUICE_RETURN_IF_ERROR(staging_->ToDevice(host, device, bytes));
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

}  // namespace sluice::kernels::cuda

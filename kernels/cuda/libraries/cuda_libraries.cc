#include "kernels/cuda/libraries/cuda_libraries.h"

#include "absl/strings/str_cat.h"

namespace sluice::kernels::cuda {

absl::Status CudaStatus(cudaError_t error, absl::string_view what) {
  if (error == cudaSuccess) return absl::OkStatus();
  cudaGetLastError();  // It is reported here, and by no later call again.
  return absl::InternalError(absl::StrCat(what,
                                          ": CUDA: ", cudaGetErrorName(error),
                                          ": ", cudaGetErrorString(error)));
}

absl::Status CublasStatus(cublasStatus_t status, absl::string_view what) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat(what, ": cuBLASLt: ", cublasLtGetStatusString(status)));
}

absl::Status CudnnStatus(cudnnStatus_t status, absl::string_view what) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  char details[256] = "";
  cudnnGetLastErrorString(details, sizeof(details));
  return absl::InternalError(absl::StrCat(
      what, ": cuDNN: ", cudnnGetErrorString(status), " ", details));
}

}  // namespace sluice::kernels::cuda

// What the shared object is: the device on a GPU.
//
// The host calls operations ahead of the GPU, which runs them in stream_. How
// far ahead is bounded by Pace: each call waits for the mark of the `ahead`-th
// call before it, then leaves one of its own. With Pace(2) between layers:
//
//   Pace, layer 0, Pace, layer 1, Pace
//
// the third waits until all before layer 0 is done. The GPU then still has
// layers 0 and 1 to go on with, and a cancelled task costs no more than the
// layers that it was handed ahead.
//
// EnterThread has no way to say that it failed, so what it found is kept in
// entered_, and the calls that follow say it: none works on another thread's
// GPU.
#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/cuda_object.h"
#include "kernels/cuda/libraries/cuda_libraries.h"
#include "kernels/cuda/libraries/gpu_number.h"

namespace sluice::kernels::cuda {
namespace {

class GpuBuffer : public Buffer {
 public:
  explicit GpuBuffer(void* data) : data_(data) {}
  // Waits for what uses it. Whichever GPU the thread has entered: an address
  // says which one it belongs to.
  ~GpuBuffer() override { cudaFree(data_); }
  void* data() override { return data_; }

 private:
  void* const data_;
};

class CudaGpu : public GpuDevice {
 public:
  explicit CudaGpu(const CudaOptions& options)
      : GpuDevice(options.precision, options.on_fallback),
        index_(options.index) {}
  ~CudaGpu() override {
    FreeScratch();
    if (cudnn_ != nullptr) cudnnDestroy(cudnn_);
    if (cublas_ != nullptr) cublasLtDestroy(cublas_);
    staging_.reset();
    for (const cudaEvent_t mark : marks_) {
      if (mark != nullptr) cudaEventDestroy(mark);
    }
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  absl::Status Open();

  void EnterThread() override {
    entered_ = CudaStatus(cudaSetDevice(index_), "cudaSetDevice");
  }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes) override;
  absl::Status CopyToDevice(const void* host, void* device,
                            int64_t bytes) override {
    SLUICE_RETURN_IF_ERROR(entered_);
    return staging_->ToDevice(host, device, bytes);
  }
  absl::Status CopyToHost(const void* device, void* host,
                          int64_t bytes) override {
    SLUICE_RETURN_IF_ERROR(entered_);
    return staging_->ToHost(device, host, bytes);
  }
  absl::StatusOr<std::unique_ptr<Upload>> PrepareUpload() override {
    return MakeCudaUpload(stream_);
  }
  absl::StatusOr<std::unique_ptr<Download>> PrepareDownload(
      int64_t bytes) override {
    SLUICE_RETURN_IF_ERROR(entered_);
    return MakeCudaDownload(stream_, bytes);
  }
  std::unique_ptr<Registration> Register(void* host, int64_t bytes) override {
    auto registered =
        entered_.ok() ? RegisterWithCuda(host, bytes, index_) : entered_;
    if (registered.ok()) return *std::move(registered);
    FellBack(absl::StrCat("memory of ", bytes, " bytes of the host"),
             "copied by the host", registered.status());
    return nullptr;
  }
  absl::Status Synchronize() override {
    SLUICE_RETURN_IF_ERROR(entered_);
    return CudaStatus(cudaStreamSynchronize(stream_),
                      "an operation since the last wait");
  }
  absl::Status Pace(int ahead) override {
    SLUICE_CHECK(ahead >= 1 && ahead <= std::size(marks_));
    // A wait for a mark that was never recorded returns at once.
    SLUICE_RETURN_IF_ERROR(CudaStatus(
        cudaEventSynchronize(marks_[(turn_ - ahead) % std::size(marks_)]),
        "an operation since the last wait"));
    return CudaStatus(
        cudaEventRecord(marks_[turn_++ % std::size(marks_)], stream_),
        "cudaEventRecord");
  }
  Stream stream() const override { return stream_; }
  absl::Status Copy(const void* from, void* to, int64_t bytes) override {
    return CudaStatus(
        cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream_),
        "copy on the device");
  }
  absl::Status Zero(void* to, int64_t bytes) override {
    return CudaStatus(cudaMemsetAsync(to, 0, bytes, stream_), "zeros");
  }
  std::string ErrorText(int error) const override {
    const auto code = static_cast<cudaError_t>(error);
    return absl::StrCat(cudaGetErrorName(code), ": ", cudaGetErrorString(code));
  }

  absl::StatusOr<std::unique_ptr<Product>> PrepareProduct(
      const ProductShape& shape) override {
    return PrepareCublasProduct(cublas_, stream_, shape);
  }
  absl::StatusOr<std::unique_ptr<Convolution>> PrepareConvolution(
      ConvolutionKind kind, Precision precision, const Conv2dShape& shape,
      int64_t samples) override;

 protected:
  std::string DescribeGpu() const override;
  absl::StatusOr<std::unique_ptr<Recording>> RecordStream(
      absl::FunctionRef<absl::Status()> calls) override {
    SLUICE_RETURN_IF_ERROR(entered_);
    return RecordGraph(stream_, calls);
  }

 private:
  const int index_;
  absl::Status entered_;  // Of the thread that entered last.
  cudaDeviceProp properties_ = {};
  int driver_ = 0;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<Staging> staging_;
  cudaEvent_t marks_[4] = {};  // Where the last calls of Pace were.
  unsigned turn_ = 0;
  cublasLtHandle_t cublas_ = nullptr;
  cudnnHandle_t cudnn_ = nullptr;  // Made for the first convolution.
};

// Whether there is a GPU of this index.
absl::Status CheckIndex(int index) {
  int driver = 0;
  SLUICE_RETURN_IF_ERROR(
      CudaStatus(cudaDriverGetVersion(&driver), "cudaDriverGetVersion"));
  SLUICE_RETURN_IF_ERROR(CheckDriver(driver, CUDART_VERSION));
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error == cudaErrorNoDevice) {
    return absl::NotFoundError(
        absl::StrCat("no CUDA device: ", cudaGetErrorString(error)));
  }
  SLUICE_RETURN_IF_ERROR(CudaStatus(error, "cudaGetDeviceCount"));
  std::vector<std::string> names;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    const bool known = cudaGetDeviceProperties(&properties, i) == cudaSuccess;
    names.push_back(known ? properties.name : "unknown");
  }
  return CheckGpuNumber(index, names);
}

absl::Status CudaGpu::Open() {
  SLUICE_RETURN_IF_ERROR(CheckIndex(index_));
  EnterThread();
  SLUICE_RETURN_IF_ERROR(entered_);
  SLUICE_RETURN_IF_ERROR(
      CudaStatus(cudaGetDeviceProperties(&properties_, index_),
                 "cudaGetDeviceProperties"));
  SLUICE_RETURN_IF_ERROR(
      CudaStatus(cudaDriverGetVersion(&driver_), "cudaDriverGetVersion"));
  SLUICE_RETURN_IF_ERROR(
      CudaStatus(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking),
                 "cudaStreamCreate"));
  for (cudaEvent_t& mark : marks_) {
    SLUICE_RETURN_IF_ERROR(
        CudaStatus(cudaEventCreateWithFlags(&mark, cudaEventDisableTiming),
                   "cudaEventCreate"));
  }
  SLUICE_ASSIGN_OR_RETURN(staging_, Staging::Create(stream_));
  return CublasStatus(cublasLtCreate(&cublas_), "cublasLtCreate");
}

std::string CudaGpu::DescribeGpu() const {
  return absl::StrCat(properties_.name, ", sm_", properties_.major,
                      properties_.minor, ", ", properties_.multiProcessorCount,
                      " multiprocessors, driver ", driver_, ", cuBLASLt ",
                      cublasLtGetVersion(), ", cuDNN ", cudnnGetVersion());
}

absl::StatusOr<std::unique_ptr<Buffer>> CudaGpu::Allocate(int64_t bytes) {
  SLUICE_RETURN_IF_ERROR(entered_);
  void* data = nullptr;
  // No bytes would have no address.
  const cudaError_t error = cudaMalloc(&data, std::max<int64_t>(bytes, 1));
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();  // It is reported here; later calls are well.
    size_t free = 0, total = 0;
    SLUICE_RETURN_IF_ERROR(
        CudaStatus(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
    return absl::ResourceExhaustedError(
        absl::StrCat("no memory for a buffer of ", bytes, " bytes on GPU ",
                     index_, ": ", free, " of its ", total, " bytes are free"));
  }
  SLUICE_RETURN_IF_ERROR(
      CudaStatus(error, absl::StrCat("a buffer of ", bytes, " bytes")));
  return std::make_unique<GpuBuffer>(data);
}

absl::StatusOr<std::unique_ptr<Convolution>> CudaGpu::PrepareConvolution(
    ConvolutionKind kind, Precision precision, const Conv2dShape& shape,
    int64_t samples) {
  if (cudnn_ == nullptr) {
    SLUICE_RETURN_IF_ERROR(CudnnStatus(cudnnCreate(&cudnn_), "cudnnCreate"));
    SLUICE_RETURN_IF_ERROR(
        CudnnStatus(cudnnSetStream(cudnn_, stream_), "cudnnSetStream"));
  }
  return PrepareCudnnConvolution(cudnn_, kind, precision, shape, samples);
}

// Errors as MakeCudaDevice's, of what follows loading.
absl::StatusOr<std::unique_ptr<Device>> MakeCudaGpu(
    const CudaOptions& options) {
  auto gpu = std::make_unique<CudaGpu>(options);
  SLUICE_RETURN_IF_ERROR(gpu->Open());
  return gpu;
}

}  // namespace
}  // namespace sluice::kernels::cuda

extern "C" void SluiceMakeCudaDevice(
    const sluice::kernels::CudaOptions& options,
    absl::StatusOr<std::unique_ptr<sluice::kernels::Device>>* result) {
  *result = sluice::kernels::cuda::MakeCudaGpu(options);
}

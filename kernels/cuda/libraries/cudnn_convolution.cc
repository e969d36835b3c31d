// Convolution by cuDNN, through the functions of cudnn_cnn.h.
//
// The algorithm is chosen once for a shape and a number of samples, among those
// that give the same bits each time (ConvolutionChoices). Nothing is timed: a
// measurement would choose another one on a busy GPU, and so other bits.
#include <type_traits>
#include <vector>

#include "common/status_macros.h"
#include "kernels/cuda/libraries/convolution_choice.h"
#include "kernels/cuda/libraries/cuda_libraries.h"

namespace sluice::kernels::cuda {
namespace {

// An algorithm that wants more is passed over. ResNet-50's and VGG-16's want
// less for a mini-batch of 64.
constexpr size_t kWorkspaceLimit = size_t{512} << 20;

// The numbers of ConvolutionChoices.
static_assert(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM == 0);
static_assert(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM == 1);
static_assert(CUDNN_CONVOLUTION_FWD_ALGO_GEMM == 2);
static_assert(CUDNN_CONVOLUTION_BWD_DATA_ALGO_1 == 1);
static_assert(CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 == 1);

using Tensor = std::unique_ptr<std::remove_pointer_t<cudnnTensorDescriptor_t>,
                               FreeWith<cudnnDestroyTensorDescriptor>>;
using Filter = std::unique_ptr<std::remove_pointer_t<cudnnFilterDescriptor_t>,
                               FreeWith<cudnnDestroyFilterDescriptor>>;
using Settings =
    std::unique_ptr<std::remove_pointer_t<cudnnConvolutionDescriptor_t>,
                    FreeWith<cudnnDestroyConvolutionDescriptor>>;

cudnnDataType_t TypeOf(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
    case Precision::kTf32:
      return CUDNN_DATA_FLOAT;
    case Precision::kBf16:
      return CUDNN_DATA_BFLOAT16;
    case Precision::kFp16:
      return CUDNN_DATA_HALF;
  }
  return CUDNN_DATA_FLOAT;
}

// The order in memory, packed. For 16 bits that in which tensor cores take
// them: (samples, height, width, channels), filters (outputs, kernel, kernel,
// inputs).
cudnnTensorFormat_t FormatOf(Precision precision) {
  return Is16Bit(precision) ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW;
}

absl::StatusOr<Tensor> MakeTensor(Precision precision, int64_t n, int64_t c,
                                  int64_t h, int64_t w) {
  cudnnTensorDescriptor_t made = nullptr;
  SLUICE_RETURN_IF_ERROR(CudnnStatus(cudnnCreateTensorDescriptor(&made),
                                     "cudnnCreateTensorDescriptor"));
  Tensor tensor(made);
  SLUICE_RETURN_IF_ERROR(CudnnStatus(
      cudnnSetTensor4dDescriptor(made, FormatOf(precision), TypeOf(precision),
                                 static_cast<int>(n), static_cast<int>(c),
                                 static_cast<int>(h), static_cast<int>(w)),
      "cudnnSetTensor4dDescriptor"));
  return tensor;
}

// NCHW is (outputs, inputs, kernel, kernel), the layout in the flat vector.
absl::StatusOr<Filter> MakeFilter(Precision precision, const Conv2dShape& s) {
  cudnnFilterDescriptor_t made = nullptr;
  SLUICE_RETURN_IF_ERROR(CudnnStatus(cudnnCreateFilterDescriptor(&made),
                                     "cudnnCreateFilterDescriptor"));
  Filter filter(made);
  const int kernel = static_cast<int>(s.kernel);
  SLUICE_RETURN_IF_ERROR(CudnnStatus(
      cudnnSetFilter4dDescriptor(made, TypeOf(precision), FormatOf(precision),
                                 static_cast<int>(s.outputs),
                                 static_cast<int>(s.inputs), kernel, kernel),
      "cudnnSetFilter4dDescriptor"));
  return filter;
}

// How factors are multiplied, and added up in FP32. FP32's default would be
// TF32 where the GPU has it.
cudnnMathType_t MathOf(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
      return CUDNN_FMA_MATH;
    case Precision::kTf32:
      return CUDNN_DEFAULT_MATH;
    case Precision::kBf16:
    case Precision::kFp16:
      return CUDNN_TENSOR_OP_MATH;
  }
  return CUDNN_FMA_MATH;
}

absl::StatusOr<Settings> MakeSettings(Precision precision,
                                      const Conv2dShape& s) {
  cudnnConvolutionDescriptor_t made = nullptr;
  SLUICE_RETURN_IF_ERROR(CudnnStatus(cudnnCreateConvolutionDescriptor(&made),
                                     "cudnnCreateConvolutionDescriptor"));
  Settings settings(made);
  const int padding = static_cast<int>(s.padding);
  const int stride = static_cast<int>(s.stride);
  // shapes.h's formula is a cross-correlation: the filter is not flipped.
  SLUICE_RETURN_IF_ERROR(CudnnStatus(
      cudnnSetConvolution2dDescriptor(
          made, padding, padding, stride, stride, /*dilation_h=*/1,
          /*dilation_w=*/1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
      "cudnnSetConvolution2dDescriptor"));
  SLUICE_RETURN_IF_ERROR(
      CudnnStatus(cudnnSetConvolutionMathType(made, MathOf(precision)),
                  "cudnnSetConvolutionMathType"));
  return settings;
}

template <typename Performance>
std::vector<ConvolutionCandidate> Candidates(
    const std::vector<Performance>& results, int found) {
  std::vector<ConvolutionCandidate> candidates;
  for (int i = 0; i < found; ++i) {
    candidates.push_back({static_cast<int>(results[i].algo),
                          results[i].status == CUDNN_STATUS_SUCCESS,
                          results[i].determinism == CUDNN_DETERMINISTIC});
  }
  return candidates;
}

class CudnnConvolution : public Convolution {
 public:
  static absl::StatusOr<std::unique_ptr<Convolution>> Create(
      cudnnHandle_t handle, ConvolutionKind kind, Precision precision,
      const Conv2dShape& shape, int64_t samples) {
    auto made =
        std::unique_ptr<CudnnConvolution>(new CudnnConvolution(handle, kind));
    SLUICE_RETURN_IF_ERROR(made->Prepare(precision, shape, samples));
    return made;
  }

  int64_t workspace_bytes() const override {
    return static_cast<int64_t>(workspace_bytes_);
  }

  absl::Status Run(const void* first, const void* second, void* out,
                   void* workspace) override {
    const float one = 1, zero = 0;
    switch (kind_) {
      case ConvolutionKind::kForward:
        return CudnnStatus(
            cudnnConvolutionForward(
                handle_, &one, x_.get(), first, w_.get(), second,
                settings_.get(),
                static_cast<cudnnConvolutionFwdAlgo_t>(algorithm_), workspace,
                workspace_bytes_, &zero, y_.get(), out),
            "cudnnConvolutionForward");
      case ConvolutionKind::kInputGradient:
        return CudnnStatus(
            cudnnConvolutionBackwardData(
                handle_, &one, w_.get(), first, y_.get(), second,
                settings_.get(),
                static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm_),
                workspace, workspace_bytes_, &zero, x_.get(), out),
            "cudnnConvolutionBackwardData");
      case ConvolutionKind::kWeightGradient:
        return CudnnStatus(
            cudnnConvolutionBackwardFilter(
                handle_, &one, x_.get(), first, y_.get(), second,
                settings_.get(),
                static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm_),
                workspace, workspace_bytes_, &zero, w_.get(), out),
            "cudnnConvolutionBackwardFilter");
    }
    return absl::InternalError("no such kind");
  }

 private:
  CudnnConvolution(cudnnHandle_t handle, ConvolutionKind kind)
      : handle_(handle), kind_(kind) {}

  absl::Status Prepare(Precision precision, const Conv2dShape& s,
                       int64_t samples) {
    SLUICE_ASSIGN_OR_RETURN(
        x_, MakeTensor(precision, samples, s.inputs, s.height, s.width));
    SLUICE_ASSIGN_OR_RETURN(
        y_, MakeTensor(precision, samples, s.outputs, s.output_height(),
                       s.output_width()));
    SLUICE_ASSIGN_OR_RETURN(w_, MakeFilter(precision, s));
    SLUICE_ASSIGN_OR_RETURN(settings_, MakeSettings(precision, s));
    std::vector<ConvolutionCandidate> candidates;
    const cudnnStatus_t searched = Search(&candidates);
    // Some shapes that it has no algorithm for are bad parameters to it.
    if (CUDNN_STATUS_CATEGORY(searched) != CUDNN_STATUS_NOT_SUPPORTED &&
        CUDNN_STATUS_CATEGORY(searched) != CUDNN_STATUS_BAD_PARAM) {
      SLUICE_RETURN_IF_ERROR(
          CudnnStatus(searched, "cudnnGetConvolution*Algorithm_v7"));
    }
    for (const int algorithm : ConvolutionChoices(kind_, candidates)) {
      size_t bytes = 0;
      if (WorkspaceSize(algorithm, &bytes) != CUDNN_STATUS_SUCCESS ||
          bytes > kWorkspaceLimit) {
        continue;
      }
      algorithm_ = algorithm;
      workspace_bytes_ = bytes;
      return absl::OkStatus();
    }
    return absl::UnimplementedError("cuDNN has no algorithm for the shape");
  }

  cudnnStatus_t Search(std::vector<ConvolutionCandidate>* candidates) {
    int found = 0;
    cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
    switch (kind_) {
      case ConvolutionKind::kForward: {
        std::vector<cudnnConvolutionFwdAlgoPerf_t> results(
            CUDNN_CONVOLUTION_FWD_ALGO_COUNT);
        status = cudnnGetConvolutionForwardAlgorithm_v7(
            handle_, x_.get(), w_.get(), settings_.get(), y_.get(),
            CUDNN_CONVOLUTION_FWD_ALGO_COUNT, &found, results.data());
        *candidates = Candidates(results, found);
        break;
      }
      case ConvolutionKind::kInputGradient: {
        std::vector<cudnnConvolutionBwdDataAlgoPerf_t> results(
            CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT);
        status = cudnnGetConvolutionBackwardDataAlgorithm_v7(
            handle_, w_.get(), y_.get(), settings_.get(), x_.get(),
            CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT, &found, results.data());
        *candidates = Candidates(results, found);
        break;
      }
      case ConvolutionKind::kWeightGradient: {
        std::vector<cudnnConvolutionBwdFilterAlgoPerf_t> results(
            CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT);
        status = cudnnGetConvolutionBackwardFilterAlgorithm_v7(
            handle_, x_.get(), y_.get(), settings_.get(), w_.get(),
            CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT, &found, results.data());
        *candidates = Candidates(results, found);
        break;
      }
    }
    if (status != CUDNN_STATUS_SUCCESS) candidates->clear();
    return status;
  }

  cudnnStatus_t WorkspaceSize(int algorithm, size_t* bytes) {
    switch (kind_) {
      case ConvolutionKind::kForward:
        return cudnnGetConvolutionForwardWorkspaceSize(
            handle_, x_.get(), w_.get(), settings_.get(), y_.get(),
            static_cast<cudnnConvolutionFwdAlgo_t>(algorithm), bytes);
      case ConvolutionKind::kInputGradient:
        return cudnnGetConvolutionBackwardDataWorkspaceSize(
            handle_, w_.get(), y_.get(), settings_.get(), x_.get(),
            static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm), bytes);
      case ConvolutionKind::kWeightGradient:
        return cudnnGetConvolutionBackwardFilterWorkspaceSize(
            handle_, x_.get(), y_.get(), settings_.get(), w_.get(),
            static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm), bytes);
    }
    return CUDNN_STATUS_BAD_PARAM;
  }

  const cudnnHandle_t handle_;
  const ConvolutionKind kind_;
  Tensor x_, y_;  // Also those of dx and dy.
  Filter w_;      // Also that of dw.
  Settings settings_;
  int algorithm_ = 0;
  size_t workspace_bytes_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Convolution>> PrepareCudnnConvolution(
    cudnnHandle_t handle, ConvolutionKind kind, Precision precision,
    const Conv2dShape& shape, int64_t samples) {
  return CudnnConvolution::Create(handle, kind, precision, shape, samples);
}

}  // namespace sluice::kernels::cuda

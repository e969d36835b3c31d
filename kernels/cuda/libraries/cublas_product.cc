// Products by cuBLASLt.
//
// The algorithm is chosen once, as the product is prepared, and by its shape
// alone: the search is told that all arrays are aligned to 16 bytes, which
// LibraryArrays sees to. A run with other addresses therefore takes the same
// algorithm, and gives the same bits. One that rounds the factors further than
// the job's precision, or adds up in 16 bits, is passed over, however fast.
#include <type_traits>
#include <utility>

#include "common/status_macros.h"
#include "kernels/cuda/libraries/cuda_libraries.h"

namespace sluice::kernels::cuda {
namespace {

// What cuBLASLt may use as workspace; NVIDIA's advice for Hopper.
constexpr uint64_t kWorkspaceLimit = 32 << 20;
// What the arrays are aligned to.
constexpr uint32_t kAlignment = 16;
// Algorithms that are asked for, best first, of which one may compute.
constexpr int kCandidates = 8;

using Operation = std::unique_ptr<std::remove_pointer_t<cublasLtMatmulDesc_t>,
                                  FreeWith<cublasLtMatmulDescDestroy>>;
using Layout = std::unique_ptr<std::remove_pointer_t<cublasLtMatrixLayout_t>,
                               FreeWith<cublasLtMatrixLayoutDestroy>>;
using Preference =
    std::unique_ptr<std::remove_pointer_t<cublasLtMatmulPreference_t>,
                    FreeWith<cublasLtMatmulPreferenceDestroy>>;

template <typename T>
absl::Status Set(const Operation& operation,
                 cublasLtMatmulDescAttributes_t attribute, T value) {
  return CublasStatus(cublasLtMatmulDescSetAttribute(operation.get(), attribute,
                                                     &value, sizeof(value)),
                      "cublasLtMatmulDescSetAttribute");
}
template <typename T>
absl::Status Set(const Preference& preference,
                 cublasLtMatmulPreferenceAttributes_t attribute, T value) {
  return CublasStatus(cublasLtMatmulPreferenceSetAttribute(
                          preference.get(), attribute, &value, sizeof(value)),
                      "cublasLtMatmulPreferenceSetAttribute");
}

template <typename T>
absl::Status Set(const Layout& layout,
                 cublasLtMatrixLayoutAttribute_t attribute, T value) {
  return CublasStatus(cublasLtMatrixLayoutSetAttribute(layout.get(), attribute,
                                                       &value, sizeof(value)),
                      "cublasLtMatrixLayoutSetAttribute");
}

cudaDataType_t TypeOf(Precision precision) {
  switch (precision) {
    case Precision::kFp32:
    case Precision::kTf32:
      return CUDA_R_32F;
    case Precision::kBf16:
      return CUDA_R_16BF;
    case Precision::kFp16:
      return CUDA_R_16F;
  }
  return CUDA_R_32F;
}

cudaDataType_t ResultType(const ProductShape& shape) {
  return shape.narrow ? TypeOf(shape.precision) : CUDA_R_32F;
}

// Column-major, which is the default order; `batch` of them packed.
absl::StatusOr<Layout> MakeLayout(cudaDataType_t type, int64_t rows,
                                  int64_t columns, int64_t stride,
                                  int64_t batch) {
  cublasLtMatrixLayout_t layout = nullptr;
  SLUICE_RETURN_IF_ERROR(CublasStatus(
      cublasLtMatrixLayoutCreate(&layout, type, rows, columns, stride),
      "cublasLtMatrixLayoutCreate"));
  Layout made(layout);
  if (batch == 1) return made;
  SLUICE_RETURN_IF_ERROR(Set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                             static_cast<int32_t>(batch)));
  SLUICE_RETURN_IF_ERROR(
      Set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, rows * columns));
  return made;
}

absl::StatusOr<Operation> MakeOperation(const ProductShape& shape) {
  cublasLtMatmulDesc_t made = nullptr;
  SLUICE_RETURN_IF_ERROR(
      CublasStatus(cublasLtMatmulDescCreate(&made,
                                            shape.precision == Precision::kTf32
                                                ? CUBLAS_COMPUTE_32F_FAST_TF32
                                                : CUBLAS_COMPUTE_32F,
                                            CUDA_R_32F),
                   "cublasLtMatmulDescCreate"));
  Operation operation(made);
  const auto transposed = [](bool is) -> int32_t {
    return is ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  SLUICE_RETURN_IF_ERROR(Set(operation, CUBLASLT_MATMUL_DESC_TRANSA,
                             transposed(shape.transpose_a)));
  SLUICE_RETURN_IF_ERROR(Set(operation, CUBLASLT_MATMUL_DESC_TRANSB,
                             transposed(shape.transpose_b)));
  if (shape.bias) {
    SLUICE_RETURN_IF_ERROR(Set(operation, CUBLASLT_MATMUL_DESC_EPILOGUE,
                               static_cast<uint32_t>(CUBLASLT_EPILOGUE_BIAS)));
    // The search looks at the address for its alignment alone.
    SLUICE_RETURN_IF_ERROR(
        Set(operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
            reinterpret_cast<const void*>(static_cast<uintptr_t>(kAlignment))));
    SLUICE_RETURN_IF_ERROR(Set(operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE,
                               static_cast<int32_t>(ResultType(shape))));
  }
  return operation;
}

absl::StatusOr<Preference> MakePreference(const ProductShape& shape) {
  cublasLtMatmulPreference_t made = nullptr;
  SLUICE_RETURN_IF_ERROR(CublasStatus(cublasLtMatmulPreferenceCreate(&made),
                                      "cublasLtMatmulPreferenceCreate"));
  Preference preference(made);
  SLUICE_RETURN_IF_ERROR(Set(
      preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspaceLimit));
  if (shape.narrow) {
    // Parts of a sum are added up as floats, not as they are stored.
    SLUICE_RETURN_IF_ERROR(
        Set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
            static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE)));
  }
  for (const auto attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                               CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    SLUICE_RETURN_IF_ERROR(Set(preference, attribute, kAlignment));
  }
  return preference;
}

// Whether the algorithm takes the factors as they are given, and adds up in
// FP32.
absl::StatusOr<bool> IsExactEnough(const cublasLtMatmulAlgo_t& algorithm,
                                   Precision precision) {
  uint64_t flags = 0;
  size_t written = 0;
  SLUICE_RETURN_IF_ERROR(CublasStatus(
      cublasLtMatmulAlgoCapGetAttribute(&algorithm,
                                        CUBLASLT_ALGO_CAP_NUMERICAL_IMPL_FLAGS,
                                        &flags, sizeof(flags), &written),
      "cublasLtMatmulAlgoCapGetAttribute"));
  constexpr uint64_t kFp16 = CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16F;
  constexpr uint64_t kBf16 = CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_16BF;
  constexpr uint64_t kTf32 = CUBLASLT_NUMERICAL_IMPL_FLAGS_INPUT_TF32;
  uint64_t refused = CUBLASLT_NUMERICAL_IMPL_FLAGS_ACCUMULATOR_16F;
  if (precision != Precision::kTf32) refused |= kTf32;
  switch (precision) {
    case Precision::kFp32:
    case Precision::kTf32:
      refused |= kFp16 | kBf16;
      break;
    case Precision::kFp16:  // One may take either type, and has both flags.
      if ((flags & kFp16) == 0) refused |= kBf16;
      break;
    case Precision::kBf16:
      // The flags do not tell: on an H100 (cuBLASLt 13.1) what takes BF16 has
      // that of FP16 alone.
      break;
  }
  return (flags & refused) == 0;
}

class CublasProduct : public Product {
 public:
  static absl::StatusOr<std::unique_ptr<Product>> Create(
      cublasLtHandle_t handle, cudaStream_t stream, const ProductShape& shape) {
    auto product = std::unique_ptr<CublasProduct>(
        new CublasProduct(handle, stream, shape));
    SLUICE_RETURN_IF_ERROR(product->Prepare());
    return product;
  }

  int64_t workspace_bytes() const override {
    return static_cast<int64_t>(chosen_.workspaceSize);
  }

  absl::Status Run(const void* a, const void* b, const void* bias, void* d,
                   void* workspace) override {
    if (bias != nullptr) {
      SLUICE_RETURN_IF_ERROR(
          Set(operation_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias));
    }
    const float one = 1, zero = 0;
    // C is D, of which nothing is read since beta is 0.
    return CublasStatus(
        cublasLtMatmul(handle_, operation_.get(), &one, a, a_.get(), b,
                       b_.get(), &zero, d, d_.get(), d, d_.get(), &chosen_.algo,
                       workspace, chosen_.workspaceSize, stream_),
        "cublasLtMatmul");
  }

 private:
  CublasProduct(cublasLtHandle_t handle, cudaStream_t stream,
                const ProductShape& shape)
      : Product(shape), handle_(handle), stream_(stream) {}

  absl::Status Prepare() {
    const ProductShape& s = shape();
    SLUICE_ASSIGN_OR_RETURN(operation_, MakeOperation(s));
    // As the arrays lie in memory, before they are transposed.
    const auto layout = [&](bool transpose, int64_t rows, int64_t columns,
                            int64_t stride) {
      if (transpose) std::swap(rows, columns);
      return MakeLayout(TypeOf(s.precision), rows, columns, stride, s.batch);
    };
    SLUICE_ASSIGN_OR_RETURN(
        a_, layout(s.transpose_a, s.rows, s.inner, s.stride_a()));
    SLUICE_ASSIGN_OR_RETURN(
        b_, layout(s.transpose_b, s.inner, s.columns, s.stride_b()));
    SLUICE_ASSIGN_OR_RETURN(
        d_, MakeLayout(ResultType(s), s.rows, s.columns, s.rows, s.batch));
    SLUICE_ASSIGN_OR_RETURN(const Preference preference, MakePreference(s));
    cublasLtMatmulHeuristicResult_t results[kCandidates] = {};
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        handle_, operation_.get(), a_.get(), b_.get(), d_.get(), d_.get(),
        preference.get(), kCandidates, results, &found);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) {
      SLUICE_RETURN_IF_ERROR(
          CublasStatus(status, "cublasLtMatmulAlgoGetHeuristic"));
    }
    for (int i = 0; i < found; ++i) {
      if (results[i].state != CUBLAS_STATUS_SUCCESS) continue;
      SLUICE_ASSIGN_OR_RETURN(const bool exact,
                              IsExactEnough(results[i].algo, s.precision));
      if (!exact) continue;
      chosen_ = results[i];
      return absl::OkStatus();
    }
    return absl::UnimplementedError("cuBLASLt has no algorithm for the shape");
  }

  const cublasLtHandle_t handle_;
  const cudaStream_t stream_;
  Operation operation_;
  Layout a_, b_, d_;
  cublasLtMatmulHeuristicResult_t chosen_ = {};
};

}  // namespace

absl::StatusOr<std::unique_ptr<Product>> PrepareCublasProduct(
    cublasLtHandle_t handle, cudaStream_t stream, const ProductShape& shape) {
  return CublasProduct::Create(handle, stream, shape);
}

}  // namespace sluice::kernels::cuda

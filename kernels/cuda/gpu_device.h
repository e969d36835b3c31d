#ifndef SLUICE_KERNELS_CUDA_GPU_DEVICE_H_
#define SLUICE_KERNELS_CUDA_GPU_DEVICE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/accelerator.h"
#include "kernels/cuda/kernels/kernels.h"
#include "kernels/cuda/precision.h"
#include "kernels/shapes.h"

namespace sluice::kernels::cuda {

// A product of matrices in cuBLAS's terms, everything column-major and packed:
//
//   D (rows, columns) = op(A) op(B) [+ bias (rows) in each column]
//
// with `inner` products to a sum. A is (rows, inner), or (inner, rows) when it
// is transposed; B (inner, columns) or (columns, inner). A batch has so many of
// each, one behind the other, without biases.
struct ProductShape {
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t inner = 1;
  bool transpose_a = false;
  bool transpose_b = false;
  bool bias = false;
  int64_t batch = 1;
  Precision precision = Precision::kFp32;  // Of A and B.
  bool narrow = false;  // D and the bias are stored as these, not as floats.

  int64_t a_size() const { return batch * rows * inner; }
  int64_t b_size() const { return batch * inner * columns; }
  // From the beginning of a column to that of the next, in elements.
  int64_t stride_a() const { return transpose_a ? inner : rows; }
  int64_t stride_b() const { return transpose_b ? columns : inner; }
};

// What a library prepared for one shape. Arrays are aligned to 16 bytes, do not
// overlap, and stay until the stream has passed; so does `workspace`, of
// workspace_bytes() aligned to 256. Asynchronous. kInternal where it fails.
//
// Thread-compatible.
class Prepared {
 public:
  virtual ~Prepared() = default;
  virtual int64_t workspace_bytes() const = 0;
};

class Product : public Prepared {
 public:
  explicit Product(const ProductShape& shape) : shape_(shape) {}
  const ProductShape& shape() const { return shape_; }
  // `a` and `b` are floats, or 16-bit numbers where the precision is of these;
  // `bias` is nullptr where the shape has none.
  virtual absl::Status Run(const void* a, const void* b, const void* bias,
                           void* d, void* workspace) = 0;

 private:
  const ProductShape shape_;
};

enum class ConvolutionKind { kForward, kInputGradient, kWeightGradient };

class Convolution : public Prepared {
 public:
  // Forward: y from x, w. Input gradient: dx from w, dy. Weight gradient: dw
  // from x, dy. All three are floats, or have 16 bits and channels last: x is
  // (samples, height, width, inputs), w (outputs, kernel, kernel, inputs).
  virtual absl::Status Run(const void* first, const void* second, void* out,
                           void* workspace) = 0;
};

// The CUDA device but for CUDA and its libraries, which a subclass brings: one
// GPU's memory, and one stream that everything runs in. So tests run what
// stands here and the operations (ops/) on a machine without a GPU.
//
// Thread-compatible.
class GpuDevice : public Accelerator {
 public:
  // What products compute in, and activations are stored in, and who hears of
  // fallbacks (CudaOptions).
  GpuDevice(Precision precision,
            std::function<void(const std::string&)> on_fallback)
      : precision_(precision), on_fallback_(std::move(on_fallback)) {}

  std::string Description() const final;
  int64_t activation_bytes() const final { return BytesOf(precision_); }
  absl::StatusOr<std::unique_ptr<Recording>> Record(
      absl::FunctionRef<absl::Status()> calls) final;
  absl::StatusOr<std::unique_ptr<VectorOp>> PrepareVector(
      absl::Span<const ParameterRange> ranges) final;
  absl::StatusOr<AnyOp> PrepareAny(const OpSpec& spec,
                                   int64_t max_samples) final;

  Precision precision() const { return precision_; }
  virtual Stream stream() const = 0;
  // In the stream, within the device's memory.
  virtual absl::Status Copy(const void* from, void* to, int64_t bytes) = 0;
  virtual absl::Status Zero(void* to, int64_t bytes) = 0;
  // What a kernel's launch returned, in words.
  virtual std::string ErrorText(int error) const = 0;

  // kUnimplemented where the library cannot do the shape.
  virtual absl::StatusOr<std::unique_ptr<Product>> PrepareProduct(
      const ProductShape& shape) = 0;
  // REQUIRES: inputs and outputs are multiples of 8 where precision has 16
  // bits.
  virtual absl::StatusOr<std::unique_ptr<Convolution>> PrepareConvolution(
      ConvolutionKind kind, Precision precision, const Conv2dShape& shape,
      int64_t samples) = 0;

  // Memory of at least `bytes`, aligned to 256, that belongs to one call of an
  // operation at a time, since the stream runs them one after the other: good
  // until the next call; or as long as what is recorded meanwhile.
  // kResourceExhausted as Allocate.
  absl::StatusOr<char*> Scratch(int64_t bytes);
  // What `launch(parts, total)`, with `count` pairs as scratch, makes of
  // `total`, once it is done. Errors name the operation.
  absl::StatusOr<Pair> WaitForTotal(
      const std::string& name, int64_t count,
      absl::FunctionRef<int(Pair* parts, Pair* total)> launch);
  // An operation called `name` computes `instead`, because of `why`.
  void FellBack(const std::string& name, const std::string& instead,
                const absl::Status& why);
  // What the launch of a kernel of operation `name` returned, as a status.
  absl::Status Launched(const std::string& name, int error) const;

 protected:
  // GPU, driver and libraries: all that decides bits but the precision.
  virtual std::string DescribeGpu() const = 0;
  // What `calls` puts into the stream. It must not allocate, nor copy from or
  // to the host, nor wait; what it calls stays as long as the recording.
  virtual absl::StatusOr<std::unique_ptr<Recording>> RecordStream(
      absl::FunctionRef<absl::Status()> calls) = 0;
  // For a destructor, while the GPU can still be asked.
  void FreeScratch() { scratch_.reset(); }

 private:
  const Precision precision_;
  const std::function<void(const std::string&)> on_fallback_;
  std::set<std::string> told_;  // To it.
  // Grows to what the largest call needs; recordings keep what they use.
  std::shared_ptr<Buffer> scratch_;
  int64_t scratch_bytes_ = 0;
  bool recording_ = false;
};

// `status` with `name` before its message.
absl::Status Named(const std::string& name, const absl::Status& status);

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_GPU_DEVICE_H_

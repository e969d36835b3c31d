#ifndef SLUICE_KERNELS_CUDA_BACKEND_H_
#define SLUICE_KERNELS_CUDA_BACKEND_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/kernels.h"
#include "kernels/device.h"
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

  // From the beginning of a column to that of the next, in floats.
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
  // `bias` is nullptr where the shape has none.
  virtual absl::Status Run(const float* a, const float* b, const float* bias,
                           float* d, void* workspace) = 0;
};

enum class ConvolutionKind { kForward, kInputGradient, kWeightGradient };

class Convolution : public Prepared {
 public:
  // Forward: y from x, w. Input gradient: dx from w, dy. Weight gradient: dw
  // from x, dy.
  virtual absl::Status Run(const float* first, const float* second, float* out,
                           void* workspace) = 0;
};

// What the CUDA device needs of CUDA and its libraries: one GPU's memory, and
// one stream that everything runs in. The device's own part stands above it, so
// that tests run it on a machine without a GPU.
//
// Thread-compatible.
class Backend {
 public:
  virtual ~Backend() = default;

  // As Device's methods of these names.
  virtual std::string Description() const = 0;
  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes) = 0;
  virtual absl::Status CopyToDevice(const void* host, void* device,
                                    int64_t bytes) = 0;
  virtual absl::Status CopyToHost(const void* device, void* host,
                                  int64_t bytes) = 0;
  virtual absl::Status Synchronize() = 0;

  // Makes the calling thread use this GPU.
  virtual absl::Status EnterThread() = 0;

  virtual Stream stream() const = 0;
  // In the stream, within the device's memory.
  virtual absl::Status Copy(const void* from, void* to, int64_t bytes) = 0;
  virtual absl::Status Zero(void* to, int64_t bytes) = 0;
  // What a kernel's launch returned, in words.
  virtual std::string ErrorText(int error) const = 0;

  // kUnimplemented where the library cannot do the shape.
  virtual absl::StatusOr<std::unique_ptr<Product>> PrepareProduct(
      const ProductShape& shape) = 0;
  virtual absl::StatusOr<std::unique_ptr<Convolution>> PrepareConvolution(
      ConvolutionKind kind, const Conv2dShape& shape, int64_t samples) = 0;
};

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_BACKEND_H_

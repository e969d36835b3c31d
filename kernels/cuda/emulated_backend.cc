#include "kernels/cuda/emulated_backend.h"

#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/activations.cu"
#include "kernels/cuda/attention.cu"
#include "kernels/cuda/channel_sums.cu"
#include "kernels/cuda/direct_conv.cu"
#include "kernels/cuda/elementwise.cu"
#include "kernels/cuda/embedding.cu"
#include "kernels/cuda/layer_norm.cu"
#include "kernels/cuda/losses.cu"
#include "kernels/cuda/pool.cu"
#include "kernels/reference/linear_ops.h"

namespace sluice::kernels::cuda {
namespace {

class HostBuffer : public Buffer {
 public:
  explicit HostBuffer(int64_t bytes)
      : data_(std::aligned_alloc(256, (bytes + 256) / 256 * 256)) {
    std::memset(data_, 0xff, bytes);
  }
  ~HostBuffer() override { std::free(data_); }
  void* data() override { return data_; }

 private:
  void* const data_;
};

absl::Status CheckAligned(std::initializer_list<const void*> arrays) {
  for (const void* array : arrays) {
    if (!Aligned(array)) return absl::InternalError("an array not aligned");
  }
  return absl::OkStatus();
}

constexpr int64_t kWorkspace = 1000;  // Some, which is overwritten.

class LoopProduct : public Product {
 public:
  explicit LoopProduct(const ProductShape& shape) : s_(shape) {}
  int64_t workspace_bytes() const override { return kWorkspace; }

  absl::Status Run(const float* a, const float* b, const float* bias, float* d,
                   void* workspace) override {
    std::memset(workspace, 0xff, kWorkspace);
    const auto element = [](const float* matrix, bool transpose, int64_t row,
                            int64_t column, int64_t stride) {
      if (transpose) std::swap(row, column);
      return static_cast<double>(matrix[row + column * stride]);
    };
    const absl::Status aligned = CheckAligned({a, b, bias, d});
    for (int64_t n = 0; n < s_.batch; ++n) {
      for (int64_t column = 0; column < s_.columns; ++column) {
        for (int64_t row = 0; row < s_.rows; ++row) {
          double sum = s_.bias ? bias[row] : 0;
          for (int64_t k = 0; k < s_.inner; ++k) {
            sum += element(a, s_.transpose_a, row, k, s_.stride_a()) *
                   element(b, s_.transpose_b, k, column, s_.stride_b());
          }
          d[row + column * s_.rows] = static_cast<float>(sum);
        }
      }
      a += s_.rows * s_.inner;
      b += s_.inner * s_.columns;
      d += s_.rows * s_.columns;
    }
    return aligned;
  }

 private:
  const ProductShape s_;
};

class LoopConvolution : public Convolution {
 public:
  LoopConvolution(ConvolutionKind kind, const Conv2dShape& shape,
                  int64_t samples)
      : kind_(kind), shape_(shape), samples_(samples) {}
  int64_t workspace_bytes() const override { return kWorkspace; }

  absl::Status Run(const float* first, const float* second, float* out,
                   void* workspace) override {
    std::memset(workspace, 0xff, kWorkspace);
    const int64_t x_size = samples_ * shape_.input_size();
    const std::vector<float> zeros(std::max(x_size, shape_.weight_size()));
    std::vector<float> unused(zeros.size());
    switch (kind_) {
      case ConvolutionKind::kForward:
        reference::Conv2dForward<float>(shape_, samples_, first, second,
                                        nullptr, out);
        break;
      case ConvolutionKind::kInputGradient:
        reference::Conv2dBackward<float>(shape_, samples_, zeros.data(), first,
                                         second, out, unused.data(), nullptr);
        break;
      case ConvolutionKind::kWeightGradient:
        reference::Conv2dBackward<float>(shape_, samples_, first, zeros.data(),
                                         second, nullptr, out, nullptr);
        break;
    }
    return CheckAligned({first, second, out});
  }

 private:
  const ConvolutionKind kind_;
  const Conv2dShape shape_;
  const int64_t samples_;
};

class EmulatedBackend : public Backend {
 public:
  explicit EmulatedBackend(bool libraries) : libraries_(libraries) {}

  std::string Description() const override { return "cuda (emulated)"; }
  absl::Status EnterThread() override { return absl::OkStatus(); }
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes) override {
    return std::make_unique<HostBuffer>(bytes);
  }
  absl::Status CopyToDevice(const void* host, void* device,
                            int64_t bytes) override {
    return Copy(host, device, bytes);
  }
  absl::Status CopyToHost(const void* device, void* host,
                          int64_t bytes) override {
    return Copy(device, host, bytes);
  }
  absl::Status Synchronize() override { return absl::OkStatus(); }
  Stream stream() const override { return nullptr; }
  absl::Status Copy(const void* from, void* to, int64_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);  // Nothing may be nowhere.
    return absl::OkStatus();
  }
  absl::Status Zero(void* to, int64_t bytes) override {
    if (bytes > 0) std::memset(to, 0, bytes);
    return absl::OkStatus();
  }
  std::string ErrorText(int error) const override {
    return absl::StrCat("error ", error);
  }

  absl::StatusOr<std::unique_ptr<Product>> PrepareProduct(
      const ProductShape& shape) override {
    if (shape.bias && !libraries_) return absl::UnimplementedError("a bias");
    return std::make_unique<LoopProduct>(shape);
  }
  absl::StatusOr<std::unique_ptr<Convolution>> PrepareConvolution(
      ConvolutionKind kind, const Conv2dShape& shape,
      int64_t samples) override {
    if (!libraries_) return absl::UnimplementedError("convolutions");
    return std::make_unique<LoopConvolution>(kind, shape, samples);
  }

 private:
  const bool libraries_;
};

}  // namespace

std::unique_ptr<Backend> MakeEmulatedBackend(bool libraries) {
  return std::make_unique<EmulatedBackend>(libraries);
}

}  // namespace sluice::kernels::cuda

// The kernels of the .cu files, compiled for the host, so that tests on a
// machine without a GPU run this very code. What would go unnoticed on a GPU is
// made to fail here: memory and workspaces begin as NaN (0xff), operations and
// downloads are done as late as they may be and uploads as soon (of registered
// memory once more as late), pointers must be into the device's memory, and
// whatever CUDA forbids while a stream is captured is an error. With
// `libraries` false nothing of cuBLASLt or cuDNN beyond the plainest is there,
// as for shapes that they refuse.
#include "kernels/cuda/testing/emulated_gpu.h"

#include <cstdlib>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/kernels/attention.cu"
#include "kernels/cuda/kernels/casts.cu"
#include "kernels/cuda/kernels/channel_sums.cu"
#include "kernels/cuda/kernels/direct_conv.cu"
#include "kernels/cuda/kernels/elementwise.cu"
#include "kernels/cuda/kernels/embedding.cu"
#include "kernels/cuda/kernels/layer_norm.cu"
#include "kernels/cuda/kernels/losses.cu"
#include "kernels/cuda/kernels/number_types.h"
#include "kernels/cuda/kernels/pool.cu"
#include "kernels/cuda/kernels/vectors.cu"
#include "kernels/reference/linear_ops.h"

namespace sluice::kernels::cuda {
namespace {

emulation::Stream& TheStream() {
  static auto* const stream = new emulation::Stream;
  return *stream;
}

class HostBuffer : public Buffer {
 public:
  explicit HostBuffer(int64_t bytes)
      : data_(std::aligned_alloc(256, (bytes + 256) / 256 * 256)) {
    std::memset(data_, 0xff, bytes);
    TheStream().Allocated(data_, bytes);
  }
  ~HostBuffer() override {
    TheStream().Wait();  // As cudaFree does.
    TheStream().Freed(data_);
    std::free(data_);
  }
  void* data() override { return data_; }

 private:
  void* const data_;
};

// What CUDA forbids while a stream is captured.
absl::Status CheckExecuting() {
  if (emulation::recording == nullptr) return absl::OkStatus();
  return absl::InternalError("not while operations are recorded");
}

// What is used by the device and by nothing else.
absl::Status CheckOnDevice(std::initializer_list<const void*> arrays) {
  for (const void* array : arrays) {
    if (!TheStream().Holds(array)) {
      return absl::InternalError("an array not in the device's memory");
    }
  }
  return absl::OkStatus();
}

class EmulatedRecording : public Recording {
 public:
  explicit EmulatedRecording(emulation::Calls calls)
      : calls_(std::move(calls)) {}
  ~EmulatedRecording() override { TheStream().Wait(); }
  absl::Status Run() override {
    SLUICE_RETURN_IF_ERROR(CheckExecuting());
    for (const auto& call : calls_) TheStream().Push(call);
    return absl::OkStatus();
  }

 private:
  const emulation::Calls calls_;
};

// What a library takes.
absl::Status CheckArrays(std::initializer_list<const void*> arrays) {
  for (const void* array : arrays) {
    if (!Aligned(array)) return absl::InternalError("an array not aligned");
  }
  return CheckOnDevice(arrays);
}

constexpr int64_t kWorkspace = 1000;  // Some, which is overwritten.

// Factors as they are multiplied. TF32's further bits are left out, as by
// tensor cores.
std::vector<float> Factors(Precision precision, const void* array,
                           int64_t size) {
  std::vector<float> factors(size);
  const auto* floats = static_cast<const float*>(array);
  const auto* halves = static_cast<const uint16_t*>(array);
  for (int64_t i = 0; i < size; ++i) {
    switch (precision) {
      case Precision::kFp32:
        factors[i] = floats[i];
        break;
      case Precision::kTf32:
        factors[i] = FloatOf(BitsOf(floats[i]) & 0xffffe000);
        break;
      case Precision::kBf16:
        factors[i] = Bf16::Widen(halves[i]);
        break;
      case Precision::kFp16:
        factors[i] = Fp16::Widen(halves[i]);
        break;
    }
  }
  return factors;
}

// Writes number `i` of a result.
void Store(Precision precision, float value, void* array, int64_t i) {
  WithType(precision, [&](auto type) {
    using Stored = typename decltype(type)::Stored;
    static_cast<Stored*>(array)[i] = type.Narrow(value);
  });
}

class LoopProduct : public Product {
 public:
  explicit LoopProduct(const ProductShape& shape) : Product(shape) {}
  ~LoopProduct() override { TheStream().Wait(); }
  int64_t workspace_bytes() const override { return kWorkspace; }

  absl::Status Run(const void* all_a, const void* all_b, const void* bias,
                   void* d, void* workspace) override {
    SLUICE_RETURN_IF_ERROR(CheckArrays({all_a, all_b, bias, d, workspace}));
    emulation::Execute(
        [=, this] { Multiply(all_a, all_b, bias, d, workspace); });
    return absl::OkStatus();
  }

 private:
  void Multiply(const void* all_a, const void* all_b, const void* all_biases,
                void* all_d, void* workspace) const {
    const ProductShape& s = shape();
    std::memset(workspace, 0xff, kWorkspace);
    const auto a_factors = Factors(s.precision, all_a, s.a_size());
    const auto b_factors = Factors(s.precision, all_b, s.b_size());
    const float *a = a_factors.data(), *b = b_factors.data();
    const Precision stored = s.narrow ? s.precision : Precision::kFp32;
    const auto bias = Factors(stored, all_biases, s.bias ? s.rows : 0);
    const auto element = [](const float* matrix, bool transpose, int64_t row,
                            int64_t column, int64_t stride) {
      if (transpose) std::swap(row, column);
      return static_cast<double>(matrix[row + column * stride]);
    };
    for (int64_t n = 0; n < s.batch; ++n) {
      for (int64_t column = 0; column < s.columns; ++column) {
        for (int64_t row = 0; row < s.rows; ++row) {
          double sum = s.bias ? bias[row] : 0;
          for (int64_t k = 0; k < s.inner; ++k) {
            sum += element(a, s.transpose_a, row, k, s.stride_a()) *
                   element(b, s.transpose_b, k, column, s.stride_b());
          }
          Store(stored, static_cast<float>(sum), all_d,
                (n * s.columns + column) * s.rows + row);
        }
      }
      a += s.rows * s.inner;
      b += s.inner * s.columns;
    }
  }
};

class LoopConvolution : public Convolution {
 public:
  LoopConvolution(ConvolutionKind kind, Precision precision,
                  const Conv2dShape& shape, int64_t samples)
      : kind_(kind), precision_(precision), shape_(shape), samples_(samples) {}
  ~LoopConvolution() override { TheStream().Wait(); }
  int64_t workspace_bytes() const override { return kWorkspace; }

  absl::Status Run(const void* first, const void* second, void* out,
                   void* workspace) override {
    SLUICE_RETURN_IF_ERROR(CheckArrays({first, second, out, workspace}));
    emulation::Execute([=, this] { Convolve(first, second, out, workspace); });
    return absl::OkStatus();
  }

 private:
  void Convolve(const void* first, const void* second, void* out,
                void* workspace) const {
    std::memset(workspace, 0xff, kWorkspace);
    const Conv2dShape& s = shape_;
    const Images x = {samples_, s.inputs, s.height * s.width};
    const Images y = {samples_, s.outputs,
                      s.output_height() * s.output_width()};
    const Images w = {s.outputs, s.inputs, s.kernel * s.kernel};
    switch (kind_) {
      case ConvolutionKind::kForward: {
        std::vector<float> result(y.size());
        reference::Conv2dForward<float>(s, samples_, Read(x, first).data(),
                                        Read(w, second).data(), nullptr,
                                        result.data());
        Write(y, result, out);
        break;
      }
      case ConvolutionKind::kInputGradient: {
        std::vector<float> result(x.size()), unused(w.size());
        reference::Conv2dBackward<float>(
            s, samples_, result.data(), Read(w, first).data(),
            Read(y, second).data(), result.data(), unused.data(), nullptr);
        Write(x, result, out);
        break;
      }
      case ConvolutionKind::kWeightGradient: {
        std::vector<float> result(w.size());
        reference::Conv2dBackward<float>(s, samples_, Read(x, first).data(),
                                         result.data(), Read(y, second).data(),
                                         nullptr, result.data(), nullptr);
        Write(w, result, out);
        break;
      }
    }
  }

  struct Images {
    int64_t samples, channels, pixels;

    int64_t size() const { return samples * channels * pixels; }
    // Calls f(index, index with channels last).
    template <typename F>
    void ForEach(const F& f) const {
      for (int64_t i = 0; i < size(); ++i) {
        const int64_t p = i % pixels, c = i / pixels % channels;
        f(i, (i / pixels / channels * pixels + p) * channels + c);
      }
    }
  };

  std::vector<float> Read(const Images& images, const void* array) const {
    const auto factors = Factors(precision_, array, images.size());
    if (!Is16Bit(precision_)) return factors;
    std::vector<float> ordered(factors.size());
    images.ForEach(
        [&](int64_t i, int64_t last) { ordered[i] = factors[last]; });
    return ordered;
  }

  void Write(const Images& images, const std::vector<float>& result,
             void* out) const {
    images.ForEach([&](int64_t i, int64_t last) {
      Store(precision_, result[i], out, Is16Bit(precision_) ? last : i);
    });
  }

  const ConvolutionKind kind_;
  const Precision precision_;
  const Conv2dShape shape_;
  const int64_t samples_;
};

// Reads a part as late as it may be: when it is taken, which is when it is
// asked for a second time or waited for. Registered memory is NaN until then.
class LateDownload : public Download {
 public:
  explicit LateDownload(int64_t bytes) : bytes_(bytes) {}

  absl::Status Begin(const void* device, void* host, int64_t bytes) override {
    SLUICE_RETURN_IF_ERROR(CheckExecuting());
    SLUICE_RETURN_IF_ERROR(CheckOnDevice({device}));
    begun_ = parts_.empty() ? bytes : begun_ + bytes;
    if (begun_ > bytes_) return absl::InternalError("no room for the part");
    if (TheStream().IsRegistered(host, bytes)) std::memset(host, 0xff, bytes);
    parts_.push_back({device, host, bytes});
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Take(bool wait) override {
    SLUICE_RETURN_IF_ERROR(CheckExecuting());
    Part& part = parts_.front();
    if (!wait && !std::exchange(part.asked_for, true)) return false;
    TheStream().Wait();
    if (part.bytes > 0) std::memcpy(part.host, part.device, part.bytes);
    parts_.pop_front();
    return true;
  }
  absl::Status Drop() override {
    parts_.clear();
    return CheckExecuting();
  }

 private:
  struct Part {
    const void* device;
    void* host;
    int64_t bytes;
    bool asked_for = false;
  };

  const int64_t bytes_;
  int64_t begun_ = 0;  // Bytes since all were taken.
  std::deque<Part> parts_;
};

// What is sent arrives before any operation that was called since Begin.
class EarlyUpload : public Upload {
 public:
  absl::Status Begin() override {
    TheStream().Wait();
    return CheckExecuting();
  }
  absl::Status Send(const void* host, void* device, int64_t bytes) override {
    SLUICE_RETURN_IF_ERROR(CheckExecuting());
    SLUICE_RETURN_IF_ERROR(CheckOnDevice({device}));
    if (bytes == 0) return absl::OkStatus();
    std::memcpy(device, host, bytes);
    if (TheStream().IsRegistered(host, bytes)) {
      TheStream().Push([=] { std::memcpy(device, host, bytes); });
    }
    return absl::OkStatus();
  }
};

class EmulatedRegistration : public Registration {
 public:
  EmulatedRegistration(const void* host, int64_t bytes) : host_(host) {
    TheStream().Registered(host_, bytes);
  }
  ~EmulatedRegistration() override {
    TheStream().Wait();
    TheStream().Unregistered(host_);
  }

 private:
  const void* const host_;
};

class EmulatedGpu : public GpuDevice {
 public:
  EmulatedGpu(bool libraries, Precision precision,
              std::function<void(const std::string&)> on_fallback)
      : GpuDevice(precision, std::move(on_fallback)), libraries_(libraries) {
    ++devices_;
    emulation::stream = &TheStream();
  }
  ~EmulatedGpu() override {
    FreeScratch();
    TheStream().Wait();
    if (--devices_ == 0) emulation::stream = nullptr;
  }

  void EnterThread() override {}
  absl::StatusOr<std::unique_ptr<Buffer>> Allocate(int64_t bytes) override {
    SLUICE_RETURN_IF_ERROR(CheckExecuting());
    return std::make_unique<HostBuffer>(bytes);
  }
  absl::Status CopyToDevice(const void* host, void* device,
                            int64_t bytes) override {
    SLUICE_RETURN_IF_ERROR(CheckExecuting());
    SLUICE_RETURN_IF_ERROR(CheckOnDevice({device}));
    const auto* from = static_cast<const char*>(host);
    TheStream().Push([device, kept = std::vector<char>(from, from + bytes)] {
      if (!kept.empty()) std::memcpy(device, kept.data(), kept.size());
    });
    return absl::OkStatus();
  }
  absl::Status CopyToHost(const void* device, void* host,
                          int64_t bytes) override {
    SLUICE_RETURN_IF_ERROR(CheckExecuting());
    SLUICE_RETURN_IF_ERROR(CheckOnDevice({device}));
    TheStream().Wait();
    if (bytes > 0) std::memcpy(host, device, bytes);
    return absl::OkStatus();
  }
  absl::StatusOr<std::unique_ptr<Upload>> PrepareUpload() override {
    SLUICE_RETURN_IF_ERROR(CheckExecuting());
    return std::make_unique<EarlyUpload>();
  }
  absl::StatusOr<std::unique_ptr<Download>> PrepareDownload(
      int64_t bytes) override {
    SLUICE_RETURN_IF_ERROR(CheckExecuting());
    return std::make_unique<LateDownload>(bytes);
  }
  std::unique_ptr<Registration> Register(void* host, int64_t bytes) override {
    return std::make_unique<EmulatedRegistration>(host, bytes);
  }
  absl::Status Synchronize() override {
    TheStream().Wait();
    return CheckExecuting();
  }
  absl::Status Pace(int ahead) override {
    TheStream().Pace(ahead);
    return CheckExecuting();
  }
  Stream stream() const override { return nullptr; }
  absl::Status Copy(const void* from, void* to, int64_t bytes) override {
    if (bytes == 0) return absl::OkStatus();  // Nothing may be nowhere.
    SLUICE_RETURN_IF_ERROR(CheckOnDevice({from, to}));
    emulation::Execute([=] { std::memcpy(to, from, bytes); });
    return absl::OkStatus();
  }
  absl::Status Zero(void* to, int64_t bytes) override {
    if (bytes == 0) return absl::OkStatus();
    SLUICE_RETURN_IF_ERROR(CheckOnDevice({to}));
    emulation::Execute([=] { std::memset(to, 0, bytes); });
    return absl::OkStatus();
  }
  std::string ErrorText(int error) const override {
    return error == emulation::kNotOnDevice
               ? std::string("an array not in the device's memory")
               : absl::StrCat("error ", error);
  }

  absl::StatusOr<std::unique_ptr<Product>> PrepareProduct(
      const ProductShape& shape) override {
    if (shape.bias && !libraries_) return absl::UnimplementedError("a bias");
    if (Is16Bit(shape.precision) && !IsOctets(shape) && !libraries_) {
      return absl::UnimplementedError("columns not aligned to 16 bytes");
    }
    return std::make_unique<LoopProduct>(shape);
  }
  absl::StatusOr<std::unique_ptr<Convolution>> PrepareConvolution(
      ConvolutionKind kind, Precision precision, const Conv2dShape& shape,
      int64_t samples) override {
    if (!libraries_) return absl::UnimplementedError("convolutions");
    if (Is16Bit(precision) && (shape.inputs % 8 > 0 || shape.outputs % 8 > 0)) {
      return absl::InternalError("channels not aligned to 16 bytes");
    }
    return std::make_unique<LoopConvolution>(kind, precision, shape, samples);
  }

 protected:
  std::string DescribeGpu() const override { return "emulated"; }
  absl::StatusOr<std::unique_ptr<Recording>> RecordStream(
      absl::FunctionRef<absl::Status()> calls) override {
    SLUICE_RETURN_IF_ERROR(CheckExecuting());
    emulation::Calls recorded;
    emulation::recording = &recorded;
    const absl::Status called = calls();
    emulation::recording = nullptr;
    SLUICE_RETURN_IF_ERROR(called);
    return std::make_unique<EmulatedRecording>(std::move(recorded));
  }

 private:
  // Whether every column of 16-bit numbers begins at a multiple of 16 bytes.
  static bool IsOctets(const ProductShape& s) {
    return s.stride_a() % 8 == 0 && s.stride_b() % 8 == 0;
  }

  static inline int devices_ = 0;

  const bool libraries_;
};

}  // namespace

std::unique_ptr<Accelerator> MakeEmulatedGpu(
    bool libraries, Precision precision,
    std::function<void(const std::string&)> on_fallback) {
  return std::make_unique<EmulatedGpu>(libraries, precision,
                                       std::move(on_fallback));
}

}  // namespace sluice::kernels::cuda

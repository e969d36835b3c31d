// Batch normalisation and the losses: what sums up.

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/ops/gpu_op.h"
#include "kernels/cuda/ops/ops.h"

namespace sluice::kernels::cuda {
namespace {

class BatchNorm : public GpuOp<BatchNormShape> {
 public:
  using GpuOp::GpuOp;

  absl::Status Normalize(int64_t samples, const void* x, const float* gamma,
                         const float* beta, float* mean, float* variance,
                         void* y) override {
    if (samples == 0) return ZeroChannels(mean, variance);
    SLUICE_ASSIGN_OR_RETURN(const Sums scratch, Take(samples));
    SLUICE_RETURN_IF_ERROR(
        Launched(BatchNormStatistics(stream(), precision(), shape_, samples, x,
                                     scratch.parts, mean, variance)));
    return Apply(samples, x, gamma, beta, mean, variance, y);
  }

  absl::Status Apply(int64_t samples, const void* x, const float* gamma,
                     const float* beta, const float* mean,
                     const float* variance, void* y) override {
    if (samples == 0) return absl::OkStatus();
    SLUICE_ASSIGN_OR_RETURN(const Sums scratch, Take(samples));
    return Launched(BatchNormApply(stream(), precision(), shape_, samples, x,
                                   gamma, beta, mean, variance, scratch.table,
                                   y));
  }

  absl::Status Backward(int64_t samples, const void* x, const float* gamma,
                        const float* mean, const float* variance,
                        const void* dy, void* dx, float* dgamma,
                        float* dbeta) override {
    if (samples == 0) return ZeroChannels(dgamma, dbeta);
    SLUICE_ASSIGN_OR_RETURN(const Sums scratch, Take(samples));
    return Launched(BatchNormBackward(stream(), precision(), shape_, samples, x,
                                      gamma, mean, variance, dy, scratch.parts,
                                      scratch.table, dx, dgamma, dbeta));
  }

 private:
  struct Sums {
    Pair* parts;
    float* table;  // (3, channels)
  };

  absl::StatusOr<Sums> Take(int64_t samples) {
    const int64_t parts =
        ChannelSumParts(precision(), samples, shape_.channels, shape_.pixels) *
        static_cast<int64_t>(sizeof(Pair));
    const int64_t table =
        3 * shape_.channels * static_cast<int64_t>(sizeof(float));
    SLUICE_ASSIGN_OR_RETURN(char* const memory, Scratch(parts + table));
    return Sums{reinterpret_cast<Pair*>(memory),
                reinterpret_cast<float*>(memory + parts)};
  }

  absl::Status ZeroChannels(float* a, float* b) {
    SLUICE_RETURN_IF_ERROR(Zero(a, shape_.channels));
    return Zero(b, shape_.channels);
  }
};

// Runs `launch(parts, total)`, where there are samples, and waits for the
// total.
template <typename F>
absl::StatusOr<LossResult> WaitForLoss(GpuDevice* gpu, const std::string& name,
                                       int64_t samples, int64_t width,
                                       const F& launch) {
  if (samples == 0) return LossResult{};
  SLUICE_ASSIGN_OR_RETURN(
      const Pair sums,
      gpu->WaitForTotal(name, LossParts(samples, width), launch));
  return LossResult{sums.first / static_cast<double>(samples),
                    static_cast<int64_t>(sums.second)};
}

class SoftmaxCrossEntropyOnGpu : public GpuOp<SoftmaxCrossEntropyShape> {
 public:
  using GpuOp::GpuOp;

  absl::StatusOr<LossResult> Run(int64_t samples, const void* logits,
                                 const int32_t* labels, float scale,
                                 void* dlogits) override {
    const int64_t classes = shape_.classes;
    return WaitForLoss(
        &gpu_, name_, samples, classes, [&](Pair* parts, Pair* total) {
          return SoftmaxCrossEntropy(stream(), precision(), classes, samples,
                                     logits, labels, scale, dlogits, parts,
                                     total);
        });
  }
};

class MeanSquaredErrorOnGpu : public GpuOp<MeanSquaredErrorShape> {
 public:
  using GpuOp::GpuOp;

  absl::StatusOr<LossResult> Run(int64_t samples, const void* outputs,
                                 const float* targets, float scale,
                                 void* doutputs) override {
    const int64_t width = shape_.outputs;
    return WaitForLoss(&gpu_, name_, samples, width,
                       [&](Pair* parts, Pair* total) {
                         return MeanSquaredError(stream(), precision(), width,
                                                 samples, outputs, targets,
                                                 scale, doutputs, parts, total);
                       });
  }
};

}  // namespace

OpOr<BatchNormShape> MakeOp(GpuDevice* gpu, const BatchNormShape& shape,
                            int64_t max_samples) {
  return MakeSized<BatchNorm>(
      gpu, absl::StrCat("batch_norm ", shape.channels, "x", shape.pixels),
      shape, max_samples, {shape.size()});
}

OpOr<SoftmaxCrossEntropyShape> MakeOp(GpuDevice* gpu,
                                      const SoftmaxCrossEntropyShape& shape,
                                      int64_t max_samples) {
  return MakeSized<SoftmaxCrossEntropyOnGpu>(
      gpu, absl::StrCat("softmax_cross_entropy ", shape.classes), shape,
      max_samples, {shape.classes});
}

OpOr<MeanSquaredErrorShape> MakeOp(GpuDevice* gpu,
                                   const MeanSquaredErrorShape& shape,
                                   int64_t max_samples) {
  return MakeSized<MeanSquaredErrorOnGpu>(
      gpu, absl::StrCat("mean_squared_error ", shape.outputs), shape,
      max_samples, {shape.outputs});
}

}  // namespace sluice::kernels::cuda

// Batch normalisation and the losses: what sums up.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/ops.h"

namespace sluice::kernels::cuda {
namespace {

class BatchNorm : public BatchNormOp {
 public:
  BatchNorm(OpContext* context, std::string name, const BatchNormShape& shape)
      : context_(*context), name_(std::move(name)), shape_(shape) {}

  absl::Status Normalize(int64_t samples, const void* x, const float* gamma,
                         const float* beta, float* mean, float* variance,
                         void* y) override {
    if (samples == 0) return ZeroChannels(mean, variance);
    SLUICE_ASSIGN_OR_RETURN(const Scratch scratch, Take(samples));
    SLUICE_RETURN_IF_ERROR(context_.Launched(
        name_,
        BatchNormStatistics(context_.stream(), context_.precision(), shape_,
                            samples, x, scratch.parts, mean, variance)));
    return Apply(samples, x, gamma, beta, mean, variance, y);
  }

  absl::Status Apply(int64_t samples, const void* x, const float* gamma,
                     const float* beta, const float* mean,
                     const float* variance, void* y) override {
    if (samples == 0) return absl::OkStatus();
    SLUICE_ASSIGN_OR_RETURN(const Scratch scratch, Take(samples));
    return context_.Launched(
        name_,
        BatchNormApply(context_.stream(), context_.precision(), shape_, samples,
                       x, gamma, beta, mean, variance, scratch.table, y));
  }

  absl::Status Backward(int64_t samples, const void* x, const float* gamma,
                        const float* mean, const float* variance,
                        const void* dy, void* dx, float* dgamma,
                        float* dbeta) override {
    if (samples == 0) return ZeroChannels(dgamma, dbeta);
    SLUICE_ASSIGN_OR_RETURN(const Scratch scratch, Take(samples));
    return context_.Launched(
        name_,
        BatchNormBackward(context_.stream(), context_.precision(), shape_,
                          samples, x, gamma, mean, variance, dy, scratch.parts,
                          scratch.table, dx, dgamma, dbeta));
  }

 private:
  struct Scratch {
    Pair* parts;
    float* table;  // (3, channels)
  };

  absl::StatusOr<Scratch> Take(int64_t samples) {
    const int64_t parts = ChannelSumParts(context_.precision(), samples,
                                          shape_.channels, shape_.pixels) *
                          static_cast<int64_t>(sizeof(Pair));
    const int64_t table =
        3 * shape_.channels * static_cast<int64_t>(sizeof(float));
    auto memory = context_.Scratch(parts + table);
    if (!memory.ok()) return Named(name_, memory.status());
    return Scratch{reinterpret_cast<Pair*>(*memory),
                   reinterpret_cast<float*>(*memory + parts)};
  }

  absl::Status ZeroChannels(float* a, float* b) {
    const int64_t bytes = shape_.channels * sizeof(float);
    SLUICE_RETURN_IF_ERROR(Named(name_, context_.backend().Zero(a, bytes)));
    return Named(name_, context_.backend().Zero(b, bytes));
  }

  OpContext& context_;
  const std::string name_;
  const BatchNormShape shape_;
};

// Runs `launch(parts, total)`, where there are samples, and waits for the
// total.
template <typename F>
absl::StatusOr<LossResult> WaitForLoss(OpContext* context,
                                       const std::string& name, int64_t samples,
                                       int64_t width, const F& launch) {
  if (samples == 0) return LossResult{};
  SLUICE_ASSIGN_OR_RETURN(
      const Pair sums,
      context->WaitForTotal(name, LossParts(samples, width), launch));
  return LossResult{sums.first / static_cast<double>(samples),
                    static_cast<int64_t>(sums.second)};
}

class SoftmaxCrossEntropyOnGpu : public SoftmaxCrossEntropyOp {
 public:
  SoftmaxCrossEntropyOnGpu(OpContext* context, std::string name,
                           int64_t classes)
      : context_(*context), name_(std::move(name)), classes_(classes) {}

  absl::StatusOr<LossResult> Run(int64_t samples, const void* logits,
                                 const int32_t* labels, float scale,
                                 void* dlogits) override {
    return WaitForLoss(
        &context_, name_, samples, classes_, [&](Pair* parts, Pair* total) {
          return SoftmaxCrossEntropy(context_.stream(), context_.precision(),
                                     classes_, samples, logits, labels, scale,
                                     dlogits, parts, total);
        });
  }

 private:
  OpContext& context_;
  const std::string name_;
  const int64_t classes_;
};

class MeanSquaredErrorOnGpu : public MeanSquaredErrorOp {
 public:
  MeanSquaredErrorOnGpu(OpContext* context, std::string name, int64_t outputs)
      : context_(*context), name_(std::move(name)), outputs_(outputs) {}

  absl::StatusOr<LossResult> Run(int64_t samples, const void* outputs,
                                 const float* targets, float scale,
                                 void* doutputs) override {
    return WaitForLoss(
        &context_, name_, samples, outputs_, [&](Pair* parts, Pair* total) {
          return MeanSquaredError(context_.stream(), context_.precision(),
                                  outputs_, samples, outputs, targets, scale,
                                  doutputs, parts, total);
        });
  }

 private:
  OpContext& context_;
  const std::string name_;
  const int64_t outputs_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BatchNormOp>> MakeOp(OpContext* context,
                                                    const BatchNormShape& shape,
                                                    int64_t max_samples) {
  std::string name =
      absl::StrCat("batch_norm ", shape.channels, "x", shape.pixels);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, shape.size()));
  return std::make_unique<BatchNorm>(context, std::move(name), shape);
}

absl::StatusOr<std::unique_ptr<SoftmaxCrossEntropyOp>> MakeOp(
    OpContext* context, const SoftmaxCrossEntropyShape& shape,
    int64_t max_samples) {
  std::string name = absl::StrCat("softmax_cross_entropy ", shape.classes);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, shape.classes));
  return std::make_unique<SoftmaxCrossEntropyOnGpu>(context, std::move(name),
                                                    shape.classes);
}

absl::StatusOr<std::unique_ptr<MeanSquaredErrorOp>> MakeOp(
    OpContext* context, const MeanSquaredErrorShape& shape,
    int64_t max_samples) {
  std::string name = absl::StrCat("mean_squared_error ", shape.outputs);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, shape.outputs));
  return std::make_unique<MeanSquaredErrorOnGpu>(context, std::move(name),
                                                 shape.outputs);
}

}  // namespace sluice::kernels::cuda

#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/vector_loops.h"

SLUICE_AVX2_BEGIN
// The losses touch a few floats per sample, so they stay on one thread: the
// sum over the samples is then in their order. Formulas: reference/losses.h.
namespace sluice::kernels {
namespace {

class CpuSoftmaxCrossEntropy : public SoftmaxCrossEntropyOp {
 public:
  explicit CpuSoftmaxCrossEntropy(int64_t classes)
      : classes_(classes), p_(classes) {}

  absl::StatusOr<LossResult> Run(int64_t samples, const void* logits,
                                 const int32_t* labels, float scale,
                                 void* dlogits) override {
    LossResult result;
    double total = 0;
    for (int64_t n = 0; n < samples; ++n) {
      const float* z = AsFloats(logits) + n * classes_;
      const int32_t label = labels[n];
      const float* largest = std::max_element(z, z + classes_);
      const float m = *largest, of_label = z[label];
      float sum = 0;
      for (int64_t j = 0; j < classes_; ++j) {
        p_[j] = std::exp(z[j] - m);
        sum += p_[j];
      }
      total += std::log(static_cast<double>(sum)) -
               (static_cast<double>(of_label) - m);
      if (largest - z == label) ++result.correct;
      if (dlogits == nullptr) continue;
      float* dz = AsFloats(dlogits) + n * classes_;
      const float count = static_cast<float>(samples);
      for (int64_t j = 0; j < classes_; ++j) {
        dz[j] = p_[j] / sum / count * scale;
      }
      dz[label] = (p_[label] / sum - 1) / count * scale;
    }
    if (samples > 0) result.loss = total / static_cast<double>(samples);
    return result;
  }

 private:
  const int64_t classes_;
  std::vector<float> p_;  // exp(z - m) of one sample.
};

class CpuMeanSquaredError : public MeanSquaredErrorOp {
 public:
  explicit CpuMeanSquaredError(int64_t outputs) : outputs_(outputs) {}

  absl::StatusOr<LossResult> Run(int64_t samples, const void* outputs,
                                 const float* targets, float scale,
                                 void* doutputs) override {
    const float* const y = AsFloats(outputs);
    float* const dy = AsFloats(doutputs);
    LossResult result;
    double total = 0;
    const float count = static_cast<float>(samples);
    for (int64_t i = 0; i < samples * outputs_; ++i) {
      const float error = y[i] - targets[i];
      total += static_cast<double>(error) * error / 2;
      if (dy != nullptr) dy[i] = error / count * scale;
    }
    if (samples > 0) result.loss = total / static_cast<double>(samples);
    return result;
  }

 private:
  const int64_t outputs_;
};

}  // namespace

OpOr<SoftmaxCrossEntropyShape> MakeCpuOp(const OneDnnContext*,
                                         const SoftmaxCrossEntropyShape& shape,
                                         int64_t) {
  return std::make_unique<CpuSoftmaxCrossEntropy>(shape.classes);
}

OpOr<MeanSquaredErrorShape> MakeCpuOp(const OneDnnContext*,
                                      const MeanSquaredErrorShape& shape,
                                      int64_t) {
  return std::make_unique<CpuMeanSquaredError>(shape.outputs);
}

}  // namespace sluice::kernels
SLUICE_AVX2_END

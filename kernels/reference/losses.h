#ifndef SLUICE_KERNELS_REFERENCE_LOSSES_H_
#define SLUICE_KERNELS_REFERENCE_LOSSES_H_

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/operations.h"

// The specification of the losses. T is float, or double for the gradient
// check. Arguments as kernels::SoftmaxCrossEntropyOp and MeanSquaredErrorOp.
namespace sluice::kernels::reference {

// With z the logits of a sample and m their maximum:
//
//   loss  = mean over samples of log(sum_j exp(z_j - m)) - (z_label - m)
//   dz_j  = (exp(z_j - m) / sum_k exp(z_k - m) - [j = label]) / samples * scale
template <typename T>
LossResult SoftmaxCrossEntropy(int64_t classes, int64_t samples,
                               const T* logits, const int32_t* labels,
                               double scale, T* dlogits) {
  LossResult result;
  double total = 0;
  for (int64_t n = 0; n < samples; ++n) {
    const T* z = logits + n * classes;
    const T* largest = std::max_element(z, z + classes);
    const double m = *largest, of_label = z[labels[n]];
    double sum = 0;
    for (int64_t j = 0; j < classes; ++j) sum += std::exp(z[j] - m);
    total += std::log(sum) - (of_label - m);
    if (largest - z == labels[n]) ++result.correct;
    for (int64_t j = 0; dlogits != nullptr && j < classes; ++j) {
      const double p = std::exp(z[j] - m) / sum;
      dlogits[n * classes + j] = static_cast<T>(
          (j == labels[n] ? p - 1 : p) / static_cast<double>(samples) * scale);
    }
  }
  if (samples > 0) result.loss = total / static_cast<double>(samples);
  return result;
}

// loss = mean over samples of sum_j (y_j - t_j)^2 / 2
// dy_j = (y_j - t_j) / samples * scale
template <typename T>
LossResult MeanSquaredError(int64_t width, int64_t samples, const T* outputs,
                            const T* targets, double scale, T* doutputs) {
  LossResult result;
  double total = 0;
  for (int64_t i = 0; i < samples * width; ++i) {
    const double error = static_cast<double>(outputs[i]) - targets[i];
    total += error * error / 2;
    if (doutputs != nullptr) {
      doutputs[i] =
          static_cast<T>(error / static_cast<double>(samples) * scale);
    }
  }
  if (samples > 0) result.loss = total / static_cast<double>(samples);
  return result;
}

}  // namespace sluice::kernels::reference

#endif  // SLUICE_KERNELS_REFERENCE_LOSSES_H_

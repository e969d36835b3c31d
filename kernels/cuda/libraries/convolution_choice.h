#ifndef SLUICE_KERNELS_CUDA_LIBRARIES_CONVOLUTION_CHOICE_H_
#define SLUICE_KERNELS_CUDA_LIBRARIES_CONVOLUTION_CHOICE_H_

#include <vector>

#include "absl/types/span.h"
#include "kernels/cuda/gpu_device.h"

namespace sluice::kernels::cuda {

// One of cuDNN's algorithms, by its number in the enum of its kind, as
// cudnnGetConvolution*Algorithm_v7 judged it for a shape.
struct ConvolutionCandidate {
  int algorithm = 0;
  bool usable = false;         // It can do the shape.
  bool deterministic = false;  // It gives the same bits each time.
};

// The algorithms to try, best first, of `candidates` in cuDNN's own order:
// deterministic ones that add up the products themselves, so that a sum is as
// exact as its number of terms says. FFT and Winograd add up numbers that are
// larger than the result. The numbers: implicit GEMM, with precomputed indices,
// and GEMM forward (0, 1, 2); algorithm 1 of either gradient.
inline std::vector<int> ConvolutionChoices(
    ConvolutionKind kind, absl::Span<const ConvolutionCandidate> candidates) {
  std::vector<int> choices;
  for (const ConvolutionCandidate& c : candidates) {
    const bool sums_products = kind == ConvolutionKind::kForward
                                   ? c.algorithm >= 0 && c.algorithm <= 2
                                   : c.algorithm == 1;
    if (c.usable && c.deterministic && sums_products) {
      choices.push_back(c.algorithm);
    }
  }
  return choices;
}

}  // namespace sluice::kernels::cuda

#endif  // SLUICE_KERNELS_CUDA_LIBRARIES_CONVOLUTION_CHOICE_H_

// For shapes that cuDNN cannot do. A thread has one number of the result and
// gathers all that goes into it, in a fixed order, so no two threads add to the
// same number. Of y that is inputs * kernel^2 products, of a weight samples *
// rows * columns: a weight gradient has few threads with much work each, and is
// slow, but right.
#include "kernels/cuda/direct_conv.h"
#include "kernels/cuda/launch.cuh"

namespace sluice::kernels::cuda {

int DirectConvForward(Stream stream, const Conv2dShape& shape, int64_t samples,
                      const float* x, const float* w, float* y) {
  return ForEach(stream, static_cast<uint32_t>(samples * shape.output_size()),
                 ConvOutput{ConvSizes(shape), x, w, y});
}

int DirectConvInputGradient(Stream stream, const Conv2dShape& shape,
                            int64_t samples, const float* w, const float* dy,
                            float* dx) {
  return ForEach(stream, static_cast<uint32_t>(samples * shape.input_size()),
                 ConvInputGradient{ConvSizes(shape), w, dy, dx});
}

int DirectConvWeightGradient(Stream stream, const Conv2dShape& shape,
                             int64_t samples, const float* x, const float* dy,
                             float* dw) {
  return ForEach(stream, static_cast<uint32_t>(shape.weight_size()),
                 ConvWeightGradient{ConvSizes(shape),
                                    static_cast<int32_t>(samples), x, dy, dw});
}

}  // namespace sluice::kernels::cuda

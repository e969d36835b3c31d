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

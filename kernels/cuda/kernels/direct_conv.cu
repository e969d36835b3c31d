// For shapes that cuDNN cannot do. A thread has one number of the result and
// gathers all that goes into it, in a fixed order, so no two threads add to the
// same number. Of y that is inputs * kernel^2 products, of a weight samples *
// rows * columns: a weight gradient has few threads with much work each, and is
// slow, but right.
#include "kernels/cuda/kernels/launch.cuh"

namespace sluice::kernels::cuda {
namespace {

struct ConvSizes {
  explicit ConvSizes(const Conv2dShape& s)
      : inputs(static_cast<int32_t>(s.inputs)),
        height(static_cast<int32_t>(s.height)),
        width(static_cast<int32_t>(s.width)),
        outputs(static_cast<int32_t>(s.outputs)),
        kernel(static_cast<int32_t>(s.kernel)),
        stride(static_cast<int32_t>(s.stride)),
        padding(static_cast<int32_t>(s.padding)),
        rows(static_cast<int32_t>(s.output_height())),
        columns(static_cast<int32_t>(s.output_width())) {}

  int32_t inputs, height, width, outputs, kernel, stride, padding;
  int32_t rows, columns;  // Of the output.
};

// y[n][o][r][c]
struct ConvOutput {
  ConvSizes s;
  const float* x;
  const float* w;
  float* y;

  SLUICE_HOST_DEVICE void operator()(uint32_t index) const {
    const auto at = static_cast<int32_t>(index);
    const int32_t c = at % s.columns, r = at / s.columns % s.rows;
    const int32_t o = at / s.columns / s.rows % s.outputs;
    const int32_t n = at / s.columns / s.rows / s.outputs;
    double sum = 0;
    for (int32_t i = 0; i < s.inputs; ++i) {
      const float* plane = x + (n * s.inputs + i) * s.height * s.width;
      const float* filter = w + (o * s.inputs + i) * s.kernel * s.kernel;
      for (int32_t kr = 0; kr < s.kernel; ++kr) {
        for (int32_t kc = 0; kc < s.kernel; ++kc) {
          const int32_t row = r * s.stride + kr - s.padding;
          const int32_t column = c * s.stride + kc - s.padding;
          if (row < 0 || row >= s.height) continue;
          if (column < 0 || column >= s.width) continue;
          sum += static_cast<double>(plane[row * s.width + column]) *
                 filter[kr * s.kernel + kc];
        }
      }
    }
    y[at] = static_cast<float>(sum);
  }
};

// dx[n][i][row][column]
struct ConvInputGradient {
  ConvSizes s;
  const float* w;
  const float* dy;
  float* dx;

  SLUICE_HOST_DEVICE void operator()(uint32_t index) const {
    const auto at = static_cast<int32_t>(index);
    const int32_t column = at % s.width, row = at / s.width % s.height;
    const int32_t i = at / s.width / s.height % s.inputs;
    const int32_t n = at / s.width / s.height / s.inputs;
    double sum = 0;
    for (int32_t o = 0; o < s.outputs; ++o) {
      const float* plane = dy + (n * s.outputs + o) * s.rows * s.columns;
      const float* filter = w + (o * s.inputs + i) * s.kernel * s.kernel;
      for (int32_t kr = 0; kr < s.kernel; ++kr) {
        for (int32_t kc = 0; kc < s.kernel; ++kc) {
          // row = r stride + kr - padding, likewise column.
          const int32_t r = row + s.padding - kr, c = column + s.padding - kc;
          if (r < 0 || r % s.stride != 0 || r / s.stride >= s.rows) continue;
          if (c < 0 || c % s.stride != 0 || c / s.stride >= s.columns) continue;
          sum += static_cast<double>(
                     plane[r / s.stride * s.columns + c / s.stride]) *
                 filter[kr * s.kernel + kc];
        }
      }
    }
    dx[at] = static_cast<float>(sum);
  }
};

// dw[o][i][kr][kc]
struct ConvWeightGradient {
  ConvSizes s;
  int32_t samples;
  const float* x;
  const float* dy;
  float* dw;

  SLUICE_HOST_DEVICE void operator()(uint32_t index) const {
    const auto at = static_cast<int32_t>(index);
    const int32_t kc = at % s.kernel, kr = at / s.kernel % s.kernel;
    const int32_t i = at / s.kernel / s.kernel % s.inputs;
    const int32_t o = at / s.kernel / s.kernel / s.inputs;
    double sum = 0;
    for (int32_t n = 0; n < samples; ++n) {
      const float* plane = x + (n * s.inputs + i) * s.height * s.width;
      const float* part = dy + (n * s.outputs + o) * s.rows * s.columns;
      for (int32_t r = 0; r < s.rows; ++r) {
        for (int32_t c = 0; c < s.columns; ++c) {
          const int32_t row = r * s.stride + kr - s.padding;
          const int32_t column = c * s.stride + kc - s.padding;
          if (row < 0 || row >= s.height) continue;
          if (column < 0 || column >= s.width) continue;
          sum += static_cast<double>(part[r * s.columns + c]) *
                 plane[row * s.width + column];
        }
      }
    }
    dw[at] = static_cast<float>(sum);
  }
};

// flipped[i][o][...]
struct FlippedFilter {
  int32_t inputs, outputs, area;  // Of the convolution; of a filter's plane.
  const float* w;
  float* flipped;

  SLUICE_HOST_DEVICE void operator()(uint32_t index) const {
    const auto at = static_cast<int32_t>(index);
    const int32_t k = at % area, o = at / area % outputs;
    const int32_t i = at / area / outputs;
    flipped[at] = w[(o * inputs + i) * area + area - 1 - k];
  }
};

}  // namespace

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

int FlipFilters(Stream stream, const Conv2dShape& shape, const float* w,
                float* flipped) {
  return ForEach(
      stream, static_cast<uint32_t>(shape.weight_size()),
      FlippedFilter{static_cast<int32_t>(shape.inputs),
                    static_cast<int32_t>(shape.outputs),
                    static_cast<int32_t>(shape.kernel * shape.kernel), w,
                    flipped});
}

}  // namespace sluice::kernels::cuda

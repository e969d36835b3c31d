#include "kernels/cuda/launch.cuh"

namespace sluice::kernels::cuda {

int Sum(Stream stream, int64_t size, const float* a, const float* b, float* y) {
  return Map(stream, size, Add{}, a, b, y);
}

int StoreDraw(Stream stream, const DropoutDraw& draw, DropoutDraw* to) {
  return ForEach(stream, 1, CopyDraw{draw, to});
}

int Dropout(Stream stream, int64_t size, double rate, const DropoutDraw* draw,
            const float* x, float* y) {
  if (size == 0) return 0;
  const DropoutQuads quads = {
      static_cast<uint32_t>(size),
      static_cast<uint32_t>(rate * 0x1p32),
      static_cast<float>(1 / (1 - rate)),
      draw,
      x,
      y,
      Aligned(x) && Aligned(y),
  };
  return ForEach(stream, quads.threads(), quads);
}

int AddBias(Stream stream, int64_t samples, int64_t channels, int64_t pixels,
            const float* b, bool relu, float* y) {
  const AddChannelBias f = {{FastDivide(static_cast<uint32_t>(pixels)),
                             FastDivide(static_cast<uint32_t>(channels))},
                            b};
  const int64_t size = samples * channels * pixels;
  return relu ? Map(stream, size, AddChannelBiasRelu{f}, y, y)
              : Map(stream, size, f, y, y);
}

}  // namespace sluice::kernels::cuda

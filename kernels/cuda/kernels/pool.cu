#include <initializer_list>
#include <type_traits>

#include "kernels/cuda/kernels/block_sum.cuh"
#include "kernels/cuda/kernels/fast_divide.h"

namespace sluice::kernels::cuda {
namespace {

// Where the windows of a pooling lie.

// What of a window lies in the image.
struct Window {
  uint32_t first;  // Index into x of its first element.
  uint32_t rows, columns;
};

// Over images (planes, height, width, inner): where channels are last, `inner`
// are the groups of neighbouring channels that a thread takes together, else 1;
// so neighbouring threads have neighbouring memory. Indices count groups.
struct Windows {
  Windows(const PoolShape& s, uint32_t inner)
      : width(static_cast<uint32_t>(s.width)),
        height(static_cast<uint32_t>(s.height)),
        kernel(static_cast<uint32_t>(s.kernel)),
        padding(static_cast<uint32_t>(s.padding)),
        by_inner(inner),
        by_width(width),
        by_height(height),
        by_stride(static_cast<uint32_t>(s.stride)),
        by_columns(static_cast<uint32_t>(s.output_width())),
        by_rows(static_cast<uint32_t>(s.output_height())) {}

  // Window i.
  SLUICE_HOST_DEVICE Window At(uint32_t i) const {
    const uint32_t place = by_inner(i), inner = by_inner.Rest(i, place);
    const uint32_t above = by_columns(place);
    const uint32_t column = by_columns.Rest(place, above);
    const uint32_t plane = by_rows(above), row = by_rows.Rest(above, plane);
    return At(plane, row, column, inner);
  }
  SLUICE_HOST_DEVICE Window At(uint32_t plane, uint32_t row, uint32_t column,
                               uint32_t inner) const {
    const uint32_t top = Begin(row), left = Begin(column);
    const uint32_t place = (plane * height + top) * width + left;
    return {place * by_inner.divisor() + inner, End(row, height) - top,
            End(column, width) - left};
  }

  // Calls f(index into x) for each element of the window in row-major order.
  template <typename F>
  SLUICE_HOST_DEVICE void ForEachIn(const Window& window, const F& f) const {
    for (uint32_t r = 0; r < window.rows; ++r) {
      for (uint32_t c = 0; c < window.columns; ++c) {
        f(window.first + (r * width + c) * by_inner.divisor());
      }
    }
  }

  // Calls f(its number, window) for those that element i of x lies in.
  template <typename F>
  SLUICE_HOST_DEVICE void ForThoseAround(uint32_t i, const F& f) const {
    const uint32_t place = by_inner(i), inner = by_inner.Rest(i, place);
    const uint32_t above = by_width(place);
    const uint32_t column = by_width.Rest(place, above);
    const uint32_t plane = by_height(above), row = by_height.Rest(above, plane);
    const uint32_t rows = by_rows.divisor(), columns = by_columns.divisor();
    for (uint32_t r = First(row); r < rows && r <= Last(row); ++r) {
      for (uint32_t c = First(column); c < columns && c <= Last(column); ++c) {
        const uint32_t window = (plane * rows + r) * columns + c;
        f(window * by_inner.divisor() + inner, At(plane, r, c, inner));
      }
    }
  }

  // Along one axis: where the part of a window that lies in the image begins,
  // and where it ends. A window is longer than the padding.
  SLUICE_HOST_DEVICE uint32_t Begin(uint32_t window) const {
    const uint32_t begin = window * by_stride.divisor();
    return begin > padding ? begin - padding : 0;
  }
  SLUICE_HOST_DEVICE uint32_t End(uint32_t window, uint32_t length) const {
    const uint32_t end = window * by_stride.divisor() + kernel - padding;
    return end < length ? end : length;
  }
  // The first and the last window that reach to `place`, were there no end of
  // windows.
  SLUICE_HOST_DEVICE uint32_t First(uint32_t place) const {
    const uint32_t padded = place + padding;
    return padded < kernel ? 0 : by_stride(padded - kernel) + 1;
  }
  SLUICE_HOST_DEVICE uint32_t Last(uint32_t place) const {
    return by_stride(place + padding);
  }

  uint32_t width, height, kernel, padding;
  FastDivide by_inner, by_width, by_height, by_stride, by_columns, by_rows;
};

// What `f` returns for the group of channels that a thread takes together: a
// pack where they are last and fill packs, and the arrays are aligned to these,
// else one.
template <typename F>
int WithGroups(Precision precision, int64_t channels,
               std::initializer_list<const void*> arrays, const F& f) {
  return WithType(precision, [&](auto type) {
    using Type = decltype(type);
    if constexpr (!std::is_same_v<Type, Fp32>) {
      bool packs = channels % Pack<Type>::kSize == 0;
      for (const void* array : arrays) packs = packs && Aligned(array);
      if (packs) return f(Pack<Type>{});
    }
    return f(Group<Type, 1>{});
  });
}

// Images of floats have channels first.
template <typename G>
constexpr bool kFloats = std::is_same_v<typename G::Type, Fp32>;

// What Windows calls so.
template <typename G>
uint32_t Inner(int64_t channels) {
  return kFloats<G> ? 1 : static_cast<uint32_t>(channels / G::kSize);
}

template <typename G>
uint32_t Groups(int64_t samples, int64_t size) {
  return static_cast<uint32_t>(samples * size / G::kSize);
}

template <typename G>
const G* As(const void* array) {
  return static_cast<const G*>(array);
}
template <typename G>
G* As(void* array) {
  return static_cast<G*>(array);
}

// What a thread does. Formulas as in kernels/reference. The gradient at an
// element is gathered from the windows it lies in, in row-major order, so that
// nothing is added by two threads and the sum is the reference's.

template <typename G>
SLUICE_HOST_DEVICE G Narrowed(const float* numbers) {
  G group;
  for (uint32_t j = 0; j < G::kSize; ++j) {
    group.v[j] = G::Type::Narrow(numbers[j]);
  }
  return group;
}

template <typename G>
SLUICE_HOST_DEVICE G Mean(const double* sums, double count) {
  G group;
  for (uint32_t j = 0; j < G::kSize; ++j) {
    group.v[j] = G::Type::Narrow(static_cast<float>(sums[j] / count));
  }
  return group;
}

// The first largest number of a window, which NaN is, in each of a group's
// channels.
template <typename G>
struct Maxima {
  G value;
  uint32_t here;  // Bit j: in channel j that is group `place` of x.

  SLUICE_HOST_DEVICE Maxima(const Windows& windows, const G* x,
                            const Window& window, uint32_t place)
      : value(x[window.first]), here(window.first == place ? ~0u : 0) {
    using Type = typename G::Type;
    windows.ForEachIn(window, [&](uint32_t i) {
      const G group = x[i];
      for (uint32_t j = 0; j < G::kSize; ++j) {
        const float v = Type::Widen(group.v[j]), most = Type::Widen(value.v[j]);
        if (v <= most || most != most) continue;
        value.v[j] = group.v[j];
        here = i == place ? here | 1u << j : here & ~(1u << j);
      }
    });
  }
};

// Thread i has window i.
template <typename G>
struct MaxForward {
  Windows windows;
  const G* x;
  G* y;

  SLUICE_HOST_DEVICE void operator()(uint32_t i) const {
    y[i] = Maxima<G>(windows, x, windows.At(i), 0).value;
  }
};

// Thread i has group i of x.
template <typename G>
struct MaxBackward {
  Windows windows;
  const G* x;
  const G* dy;
  G* dx;

  SLUICE_HOST_DEVICE void operator()(uint32_t i) const {
    using Type = typename G::Type;
    float sum[G::kSize] = {};
    windows.ForThoseAround(i, [&](uint32_t number, const Window& window) {
      const Maxima<G> maxima(windows, x, window, i);
      const G group = dy[number];
      for (uint32_t j = 0; j < G::kSize; ++j) {
        if (maxima.here >> j & 1) sum[j] += Type::Widen(group.v[j]);
      }
    });
    dx[i] = Narrowed<G>(sum);
  }
};

template <typename G>
struct AverageForward {
  Windows windows;
  const G* x;
  G* y;

  SLUICE_HOST_DEVICE void operator()(uint32_t i) const {
    using Type = typename G::Type;
    const Window window = windows.At(i);
    double sum[G::kSize] = {};
    windows.ForEachIn(window, [&](uint32_t place) {
      const G group = x[place];
      for (uint32_t j = 0; j < G::kSize; ++j) sum[j] += Type::Widen(group.v[j]);
    });
    const double count = static_cast<double>(window.rows) * window.columns;
    y[i] = Mean<G>(sum, count);
  }
};

template <typename G>
struct AverageBackward {
  Windows windows;
  const G* dy;
  G* dx;

  SLUICE_HOST_DEVICE void operator()(uint32_t i) const {
    using Type = typename G::Type;
    float sum[G::kSize] = {};
    windows.ForThoseAround(i, [&](uint32_t number, const Window& window) {
      const G group = dy[number];
      const float count =
          static_cast<float>(window.rows) * static_cast<float>(window.columns);
      for (uint32_t j = 0; j < G::kSize; ++j) {
        sum[j] += Type::Widen(group.v[j]) / count;
      }
    });
    dx[i] = Narrowed<G>(sum);
  }
};

// A warp for each plane: planes have 49 to a few hundred pixels where networks
// average over them.
__global__ void __launch_bounds__(kBlock)
    GlobalAverageKernel(uint32_t planes, uint32_t pixels, const float* x,
                        float* y) {
  const uint32_t plane = blockIdx.x * kWarpsOfBlock + threadIdx.x / kWarp;
  const uint32_t lane = threadIdx.x % kWarp;
  if (plane >= planes) return;  // The whole warp.
  Pair sum = {0, 0};
  for (uint32_t i = lane; i < pixels; i += kWarp) {
    sum.first += x[plane * pixels + i];
  }
  sum = WarpSum(sum);
  if (lane == 0) y[plane] = static_cast<float>(sum.first / pixels);
}

// With channels last a warp has this many neighbouring groups of a sample, and
// each kWarp / kAcross-th of their pixels in a thread: with packs that is 64
// bytes side by side, two whole sectors, and as many threads as results.
constexpr uint32_t kAcross = 4;

// `inner` groups a pixel, which `by_warps` warps take; y (samples, inner).
template <typename G>
__global__ void __launch_bounds__(kBlock)
    GlobalAverageLastKernel(uint32_t warps, FastDivide by_warps, uint32_t inner,
                            uint32_t pixels, const G* x, G* y) {
  using Type = typename G::Type;
  const uint32_t warp = blockIdx.x * kWarpsOfBlock + threadIdx.x / kWarp;
  const uint32_t lane = threadIdx.x % kWarp;
  if (warp >= warps) return;  // The whole warp.
  const uint32_t n = by_warps(warp);
  const uint32_t mine = kAcross * by_warps.Rest(warp, n) + lane % kAcross;
  double sum[G::kSize] = {};
  if (mine < inner) {
    for (uint32_t p = lane / kAcross; p < pixels; p += kWarp / kAcross) {
      const G group = x[(n * pixels + p) * inner + mine];
      for (uint32_t j = 0; j < G::kSize; ++j) sum[j] += Type::Widen(group.v[j]);
    }
  }
  for (uint32_t step = kWarp / 2; step >= kAcross; step /= 2) {
    for (uint32_t j = 0; j < G::kSize; ++j) {
      sum[j] += __shfl_down_sync(kAllLanes, sum[j], step);
    }
  }
  if (lane >= kAcross || mine >= inner) return;
  y[n * inner + mine] = Mean<G>(sum, pixels);
}

// Element i of dx (planes, pixels): the pixels have dy in equal parts.
struct GlobalAverageBackward {
  FastDivide by_pixels;
  const float* dy;

  SLUICE_HOST_DEVICE float operator()(uint32_t i, float, float) const {
    return dy[by_pixels(i)] / static_cast<float>(by_pixels.divisor());
  }
};

// Group i of dx (samples, pixels, inner).
template <typename G>
struct GlobalAverageLastBackward {
  FastDivide by_inner;
  FastDivide by_pixels;
  const G* dy;
  G* dx;

  SLUICE_HOST_DEVICE void operator()(uint32_t i) const {
    const uint32_t place = by_inner(i), inner = by_inner.Rest(i, place);
    const G group = dy[by_pixels(place) * by_inner.divisor() + inner];
    float parts[G::kSize];
    for (uint32_t j = 0; j < G::kSize; ++j) {
      parts[j] =
          G::Type::Widen(group.v[j]) / static_cast<float>(by_pixels.divisor());
    }
    dx[i] = Narrowed<G>(parts);
  }
};

}  // namespace

int MaxPoolForward(Stream stream, Precision precision, const PoolShape& shape,
                   int64_t samples, const void* x, void* y) {
  return WithGroups(precision, shape.channels, {x, y}, [&](auto group) {
    using G = decltype(group);
    return ForEach(stream, Groups<G>(samples, shape.output_size()),
                   MaxForward<G>{Windows(shape, Inner<G>(shape.channels)),
                                 As<G>(x), As<G>(y)});
  });
}

int MaxPoolBackward(Stream stream, Precision precision, const PoolShape& shape,
                    int64_t samples, const void* x, const void* dy, void* dx) {
  return WithGroups(precision, shape.channels, {x, dy, dx}, [&](auto group) {
    using G = decltype(group);
    return ForEach(stream, Groups<G>(samples, shape.input_size()),
                   MaxBackward<G>{Windows(shape, Inner<G>(shape.channels)),
                                  As<G>(x), As<G>(dy), As<G>(dx)});
  });
}

int AveragePoolForward(Stream stream, Precision precision,
                       const PoolShape& shape, int64_t samples, const void* x,
                       void* y) {
  return WithGroups(precision, shape.channels, {x, y}, [&](auto group) {
    using G = decltype(group);
    return ForEach(stream, Groups<G>(samples, shape.output_size()),
                   AverageForward<G>{Windows(shape, Inner<G>(shape.channels)),
                                     As<G>(x), As<G>(y)});
  });
}

int AveragePoolBackward(Stream stream, Precision precision,
                        const PoolShape& shape, int64_t samples, const void* dy,
                        void* dx) {
  return WithGroups(precision, shape.channels, {dy, dx}, [&](auto group) {
    using G = decltype(group);
    return ForEach(stream, Groups<G>(samples, shape.input_size()),
                   AverageBackward<G>{Windows(shape, Inner<G>(shape.channels)),
                                      As<G>(dy), As<G>(dx)});
  });
}

int GlobalAveragePoolForward(Stream stream, Precision precision,
                             int64_t samples, int64_t channels, int64_t pixels,
                             const void* x, void* y) {
  if (samples == 0) return 0;
  const auto size = static_cast<uint32_t>(pixels);
  return WithGroups(precision, channels, {x, y}, [&](auto group) {
    using G = decltype(group);
    if constexpr (kFloats<G>) {
      const auto planes = static_cast<uint32_t>(samples * channels);
      return Launch(GlobalAverageKernel, {Ceiling(planes, kWarpsOfBlock)},
                    stream, planes, size, As<float>(x), As<float>(y));
    } else {
      const uint32_t inner = Inner<G>(channels);
      const FastDivide by_warps(Ceiling(inner, kAcross));
      const uint32_t warps =
          static_cast<uint32_t>(samples) * by_warps.divisor();
      return Launch(GlobalAverageLastKernel<G>, {Ceiling(warps, kWarpsOfBlock)},
                    stream, warps, by_warps, inner, size, As<G>(x), As<G>(y));
    }
  });
}

int GlobalAveragePoolBackward(Stream stream, Precision precision,
                              int64_t samples, int64_t channels, int64_t pixels,
                              const void* dy, void* dx) {
  const FastDivide by_pixels(static_cast<uint32_t>(pixels));
  const int64_t size = samples * channels * pixels;
  return WithGroups(precision, channels, {dy, dx}, [&](auto group) {
    using G = decltype(group);
    if constexpr (kFloats<G>) {
      const GlobalAverageBackward f = {by_pixels, As<float>(dy)};
      return MapAs<Fp32>(stream, size, f, dx, dx, dx);
    } else {
      const FastDivide by_inner(Inner<G>(channels));
      return ForEach(stream, Groups<G>(1, size),
                     GlobalAverageLastBackward<G>{by_inner, by_pixels,
                                                  As<G>(dy), As<G>(dx)});
    }
  });
}

}  // namespace sluice::kernels::cuda

#include <algorithm>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/threads.h"

// Plain loops, laid out so that the compiler vectorises them along a row.
// oneDNN's pooling on NCHW is scalar (1392 us for 64 x 6 x 28 x 28, window 2),
// and its vector code needs blocked operands.
namespace sluice::kernels {
namespace {

// y[c] = max(y[c], x[c * stride]); kStride 0 means `stride`.
template <int kStride>
void MaxInto(const float* x, int64_t stride, int64_t n, float* y) {
  const int64_t step = kStride == 0 ? stride : kStride;
  for (int64_t c = 0; c < n; ++c) {
    const float v = x[c * step];
    y[c] = v > y[c] ? v : y[c];
  }
}

// y[c] += x[c * stride]
template <int kStride>
void AddInto(const float* x, int64_t stride, int64_t n, float* y) {
  const int64_t step = kStride == 0 ? stride : kStride;
  for (int64_t c = 0; c < n; ++c) y[c] += x[c * step];
}

// Where the maximum is first met, its dy is added to dx and `left` (what has
// not found its place yet) becomes 0.
template <int kStride>
void RouteToMaximum(const float* x, const float* y, int64_t stride, int64_t n,
                    float* left, float* dx) {
  const int64_t step = kStride == 0 ? stride : kStride;
  for (int64_t c = 0; c < n; ++c) {
    const bool here = x[c * step] == y[c];
    dx[c * step] += here ? left[c] : 0.0f;
    left[c] = here ? 0.0f : left[c];
  }
}

// One channel of one sample at a time.
class Planes {
 public:
  Planes(const OneDnnContext* context, const PoolShape& shape)
      : context_(*context), s_(shape) {}

 protected:
  // f(plane) for every channel of every sample.
  template <typename F>
  void ForEach(int64_t samples, F f) const {
    ParallelFor(context_.threads, samples * s_.channels, s_.height * s_.width,
                [&](int64_t begin, int64_t end) {
                  for (int64_t plane = begin; plane < end; ++plane) f(plane);
                });
  }
  // f(offset into x, offset into y) of each row of each place in the window,
  // in row-major order of the places within every output row.
  template <typename F>
  void ForEachRow(int64_t plane, F f) const {
    const int64_t rows = s_.output_height(), columns = s_.output_width();
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t kr = 0; kr < s_.kernel; ++kr) {
        for (int64_t kc = 0; kc < s_.kernel; ++kc) {
          f((plane * s_.height + r * s_.stride + kr) * s_.width + kc,
            (plane * rows + r) * columns, kr == 0 && kc == 0);
        }
      }
    }
  }

  const OneDnnContext& context_;
  const PoolShape s_;
};

class CpuMaxPool : public MapOp, private Planes {
 public:
  using Planes::Planes;

  absl::Status Forward(int64_t samples, const float* x, float* y) override {
    const int64_t n = s_.output_width();
    const auto max_into = s_.stride == 2 ? MaxInto<2> : MaxInto<0>;
    ForEach(samples, [&](int64_t plane) {
      ForEachRow(plane, [&](int64_t xi, int64_t yi, bool first) {
        if (first) {
          for (int64_t c = 0; c < n; ++c) y[yi + c] = x[xi + c * s_.stride];
        } else {
          max_into(x + xi, s_.stride, n, y + yi);
        }
      });
    });
    return absl::OkStatus();
  }

  absl::Status Backward(int64_t samples, const float* x, const float* y,
                        const float* dy, float* dx) override {
    const int64_t n = s_.output_width();
    const auto route = s_.stride == 2 ? RouteToMaximum<2> : RouteToMaximum<0>;
    ForEach(samples, [&](int64_t plane) {
      std::fill_n(dx + plane * s_.height * s_.width, s_.height * s_.width,
                  0.0f);
      std::vector<float> left(n);
      ForEachRow(plane, [&](int64_t xi, int64_t yi, bool first) {
        if (first) std::copy_n(dy + yi, n, left.begin());
        route(x + xi, y + yi, s_.stride, n, left.data(), dx + xi);
      });
    });
    return absl::OkStatus();
  }
};

class CpuAveragePool : public MapOp, private Planes {
 public:
  using Planes::Planes;

  absl::Status Forward(int64_t samples, const float* x, float* y) override {
    const int64_t n = s_.output_width(), size = n * s_.output_height();
    const auto add_into = s_.stride == 2 ? AddInto<2> : AddInto<0>;
    const float share = 1.0f / static_cast<float>(s_.kernel * s_.kernel);
    ForEach(samples, [&](int64_t plane) {
      std::fill_n(y + plane * size, size, 0.0f);
      ForEachRow(plane, [&](int64_t xi, int64_t yi, bool first) {
        add_into(x + xi, s_.stride, n, y + yi);
      });
      for (int64_t i = plane * size; i < (plane + 1) * size; ++i) {
        y[i] *= share;
      }
    });
    return absl::OkStatus();
  }

  absl::Status Backward(int64_t samples, const float* x, const float* y,
                        const float* dy, float* dx) override {
    const int64_t n = s_.output_width();
    const float share = 1.0f / static_cast<float>(s_.kernel * s_.kernel);
    ForEach(samples, [&](int64_t plane) {
      std::fill_n(dx + plane * s_.height * s_.width, s_.height * s_.width,
                  0.0f);
      ForEachRow(plane, [&](int64_t xi, int64_t yi, bool first) {
        for (int64_t c = 0; c < n; ++c) {
          dx[xi + c * s_.stride] += share * dy[yi + c];
        }
      });
    });
    return absl::OkStatus();
  }
};

}  // namespace

std::unique_ptr<MapOp> MakeCpuMaxPool(const OneDnnContext* context,
                                      const PoolShape& shape) {
  return std::make_unique<CpuMaxPool>(context, shape);
}

std::unique_ptr<MapOp> MakeCpuAveragePool(const OneDnnContext* context,
                                          const PoolShape& shape) {
  return std::make_unique<CpuAveragePool>(context, shape);
}

}  // namespace sluice::kernels

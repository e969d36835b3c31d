#include <algorithm>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/threads.h"

// Plain loops, laid out so that the compiler vectorises them along a row.
// oneDNN's pooling on NCHW is scalar (1392 us for 64 x 6 x 28 x 28, window 2),
// and its vector code needs blocked operands.
namespace sluice::kernels {
namespace {

// y[c] = max(y[c], x[c * stride])
void MaxInto(const float* x, int64_t stride, int64_t n, float* y) {
  for (int64_t c = 0; c < n; ++c) {
    const float v = x[c * stride];
    y[c] = v > y[c] ? v : y[c];
  }
}

// y[c] += x[c * stride]
void AddInto(const float* x, int64_t stride, int64_t n, float* y) {
  for (int64_t c = 0; c < n; ++c) y[c] += x[c * stride];
}

// Where the maximum is first met, its dy is added to dx and `left` (what has
// not found its place yet) becomes 0.
void RouteToMaximum(const float* x, const float* y, int64_t stride, int64_t n,
                    float* left, float* dx) {
  for (int64_t c = 0; c < n; ++c) {
    const bool here = x[c * stride] == y[c];
    dx[c * stride] += here ? left[c] : 0.0f;
    left[c] = here ? 0.0f : left[c];
  }
}

// A window of 2 by 2 every 2 pixels, by far the most common one: one row of
// windows at once, from the two rows of x below it.
void MaxOfPairs(const float* __restrict x0, const float* __restrict x1,
                int64_t n, float* __restrict y) {
  for (int64_t c = 0; c < n; ++c) {
    const float top = x0[2 * c + 1] > x0[2 * c] ? x0[2 * c + 1] : x0[2 * c];
    const float left = x1[2 * c] > top ? x1[2 * c] : top;
    y[c] = x1[2 * c + 1] > left ? x1[2 * c + 1] : left;
  }
}

// Windows do not overlap, so each element of dx is written once.
void RouteToMaximumOfPairs(const float* __restrict x0,
                           const float* __restrict x1,
                           const float* __restrict y,
                           const float* __restrict dy, int64_t n,
                           float* __restrict dx0, float* __restrict dx1) {
  for (int64_t c = 0; c < n; ++c) {
    const float m = y[c];
    const float a = x0[2 * c], b = x0[2 * c + 1], d = x1[2 * c];
    const float e = x1[2 * c + 1];
    const float all = dy[c];
    const float after_a = a == m ? 0.0f : all;
    const float after_b = b == m ? 0.0f : after_a;
    const float after_d = d == m ? 0.0f : after_b;
    dx0[2 * c] = a == m ? all : 0.0f;
    dx0[2 * c + 1] = b == m ? after_a : 0.0f;
    dx1[2 * c] = d == m ? after_b : 0.0f;
    dx1[2 * c + 1] = e == m ? after_d : 0.0f;
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
    if (IsPairs()) {
      ForEach(samples, [&](int64_t plane) {
        ForEachPairOfRows(plane, [&](int64_t xi, int64_t yi) {
          MaxOfPairs(x + xi, x + xi + s_.width, n, y + yi);
        });
      });
      return absl::OkStatus();
    }
    ForEach(samples, [&](int64_t plane) {
      ForEachRow(plane, [&](int64_t xi, int64_t yi, bool first) {
        if (first) {
          for (int64_t c = 0; c < n; ++c) y[yi + c] = x[xi + c * s_.stride];
        } else {
          MaxInto(x + xi, s_.stride, n, y + yi);
        }
      });
    });
    return absl::OkStatus();
  }

  absl::Status Backward(int64_t samples, const float* x, const float* y,
                        const float* dy, float* dx) override {
    const int64_t n = s_.output_width();
    if (IsPairs()) {
      ForEach(samples, [&](int64_t plane) {
        ForEachPairOfRows(plane, [&](int64_t xi, int64_t yi) {
          RouteToMaximumOfPairs(x + xi, x + xi + s_.width, y + yi, dy + yi, n,
                                dx + xi, dx + xi + s_.width);
        });
        ClearBeyondPairs(dx + plane * s_.height * s_.width);
      });
      return absl::OkStatus();
    }
    ForEach(samples, [&](int64_t plane) {
      std::fill_n(dx + plane * s_.height * s_.width, s_.height * s_.width,
                  0.0f);
      std::vector<float> left(n);
      ForEachRow(plane, [&](int64_t xi, int64_t yi, bool first) {
        if (first) std::copy_n(dy + yi, n, left.begin());
        RouteToMaximum(x + xi, y + yi, s_.stride, n, left.data(), dx + xi);
      });
    });
    return absl::OkStatus();
  }

 private:
  bool IsPairs() const { return s_.kernel == 2 && s_.stride == 2; }

  // f(offset into x, offset into y) of each row of windows.
  template <typename F>
  void ForEachPairOfRows(int64_t plane, F f) const {
    const int64_t rows = s_.output_height();
    for (int64_t r = 0; r < rows; ++r) {
      f((plane * s_.height + 2 * r) * s_.width,
        (plane * rows + r) * s_.output_width());
    }
  }
  // An odd last row or column belongs to no window.
  void ClearBeyondPairs(float* dx) const {
    for (int64_t r = 0; r < s_.height && s_.width % 2 == 1; ++r) {
      dx[r * s_.width + s_.width - 1] = 0;
    }
    if (s_.height % 2 == 1) {
      std::fill_n(dx + (s_.height - 1) * s_.width, s_.width, 0.0f);
    }
  }
};

class CpuAveragePool : public MapOp, private Planes {
 public:
  using Planes::Planes;

  absl::Status Forward(int64_t samples, const float* x, float* y) override {
    const int64_t n = s_.output_width(), size = n * s_.output_height();
    const float share = 1.0f / static_cast<float>(s_.kernel * s_.kernel);
    ForEach(samples, [&](int64_t plane) {
      std::fill_n(y + plane * size, size, 0.0f);
      ForEachRow(plane, [&](int64_t xi, int64_t yi, bool first) {
        AddInto(x + xi, s_.stride, n, y + yi);
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

// The sum of a plane as eight sums side by side, which a vector holds, added
// up in order at the end.
float SumOfPlane(const float* x, int64_t pixels) {
  constexpr int kLanes = 8;
  float lanes[kLanes] = {};
  const int64_t whole = pixels / kLanes * kLanes;
  for (int64_t i = 0; i < whole; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) lanes[lane] += x[i + lane];
  }
  float sum = 0;
  for (float lane : lanes) sum += lane;
  for (int64_t i = whole; i < pixels; ++i) sum += x[i];
  return sum;
}

class CpuGlobalAveragePool : public MapOp {
 public:
  CpuGlobalAveragePool(const OneDnnContext* context, int64_t channels,
                       int64_t pixels)
      : context_(*context), channels_(channels), pixels_(pixels) {}

  absl::Status Forward(int64_t samples, const float* x, float* y) override {
    const float count = static_cast<float>(pixels_);
    ParallelFor(context_.threads, samples * channels_, pixels_,
                [&](int64_t begin, int64_t end) {
                  for (int64_t p = begin; p < end; ++p) {
                    y[p] = SumOfPlane(x + p * pixels_, pixels_) / count;
                  }
                });
    return absl::OkStatus();
  }

  absl::Status Backward(int64_t samples, const float* x, const float* y,
                        const float* dy, float* dx) override {
    const float count = static_cast<float>(pixels_);
    ParallelFor(context_.threads, samples * channels_, pixels_,
                [&](int64_t begin, int64_t end) {
                  for (int64_t p = begin; p < end; ++p) {
                    std::fill_n(dx + p * pixels_, pixels_, dy[p] / count);
                  }
                });
    return absl::OkStatus();
  }

 private:
  const OneDnnContext& context_;
  const int64_t channels_;
  const int64_t pixels_;
};

}  // namespace

std::unique_ptr<MapOp> MakeCpuGlobalAveragePool(const OneDnnContext* context,
                                                int64_t channels,
                                                int64_t pixels) {
  return std::make_unique<CpuGlobalAveragePool>(context, channels, pixels);
}

std::unique_ptr<MapOp> MakeCpuMaxPool(const OneDnnContext* context,
                                      const PoolShape& shape) {
  return std::make_unique<CpuMaxPool>(context, shape);
}

std::unique_ptr<MapOp> MakeCpuAveragePool(const OneDnnContext* context,
                                          const PoolShape& shape) {
  return std::make_unique<CpuAveragePool>(context, shape);
}

}  // namespace sluice::kernels

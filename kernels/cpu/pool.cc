#include <algorithm>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/threads.h"

// Plain loops, laid out so that the compiler vectorises them along a row.
// oneDNN's pooling on NCHW is scalar (1392 us for 64 x 6 x 28 x 28, window 2),
// and its vector code needs blocked operands.
namespace sluice::kernels {
namespace {

// The larger one, which NaN is.
inline float Larger(float so_far, float v) {
  const float larger = v > so_far ? v : so_far;
  return v != v ? v : larger;
}

// Whether `x` is the maximum of its window, `y`.
inline bool IsMaximum(float x, float y) { return (x == y) | (x != x); }

// y[c] = max(y[c], x[c * stride])
void MaxInto(const float* x, int64_t stride, int64_t n, float* y) {
  for (int64_t c = 0; c < n; ++c) y[c] = Larger(y[c], x[c * stride]);
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
    const bool here = IsMaximum(x[c * stride], y[c]);
    dx[c * stride] += here ? left[c] : 0.0f;
    left[c] = here ? 0.0f : left[c];
  }
}

// A window of 2 by 2 every 2 pixels, by far the most common one: one row of
// windows at once, from the two rows of x below it.
void MaxOfPairs(const float* __restrict x0, const float* __restrict x1,
                int64_t n, float* __restrict y) {
  for (int64_t c = 0; c < n; ++c) {
    y[c] = Larger(Larger(Larger(x0[2 * c], x0[2 * c + 1]), x1[2 * c]),
                  x1[2 * c + 1]);
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
    const float after_a = IsMaximum(a, m) ? 0.0f : all;
    const float after_b = IsMaximum(b, m) ? 0.0f : after_a;
    const float after_d = IsMaximum(d, m) ? 0.0f : after_b;
    dx0[2 * c] = IsMaximum(a, m) ? all : 0.0f;
    dx0[2 * c + 1] = IsMaximum(b, m) ? after_a : 0.0f;
    dx1[2 * c] = IsMaximum(d, m) ? after_b : 0.0f;
    dx1[2 * c + 1] = IsMaximum(e, m) ? after_d : 0.0f;
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
  // f(row of windows, the offset of its first one into y) for each.
  template <typename F>
  void ForEachRowOfWindows(int64_t plane, F f) const {
    const int64_t rows = s_.output_height(), columns = s_.output_width();
    for (int64_t r = 0; r < rows; ++r) f(r, (plane * rows + r) * columns);
  }
  // For each place in the windows of row `r`, in row-major order: f(offset into
  // x, window, windows) for those one after the other that have an element of
  // the image there; the next window's lies `stride` further.
  template <typename F>
  void ForEachPlace(int64_t plane, int64_t r, F f) const {
    for (int64_t kr = 0; kr < s_.kernel; ++kr) {
      const int64_t row = r * s_.stride + kr - s_.padding;
      if (row < 0 || row >= s_.height) continue;
      for (int64_t kc = 0; kc < s_.kernel; ++kc) {
        // Columns c with 0 <= c stride + kc - padding < width.
        const int64_t first = Ceiling(s_.padding - kc);
        const int64_t end =
            std::min(Ceiling(s_.width + s_.padding - kc), s_.output_width());
        if (first >= end) continue;
        const int64_t column = first * s_.stride + kc - s_.padding;
        f((plane * s_.height + row) * s_.width + column, first, end - first);
      }
    }
  }
  // How many windows begin before `pixels`, which may be negative.
  int64_t Ceiling(int64_t pixels) const {
    return pixels <= 0 ? 0 : (pixels + s_.stride - 1) / s_.stride;
  }
  // Where the part of a window that lies in the image begins, and how long it
  // is, along an axis of `length`.
  int64_t Begin(int64_t window) const {
    return std::max<int64_t>(window * s_.stride - s_.padding, 0);
  }
  int64_t Length(int64_t window, int64_t length) const {
    return std::min(window * s_.stride - s_.padding + s_.kernel, length) -
           Begin(window);
  }

  const OneDnnContext& context_;
  const PoolShape s_;
};

class CpuMaxPool : public MapOp, private Planes {
 public:
  using Planes::Planes;

  absl::Status Forward(int64_t samples, const void* x_in,
                       void* y_out) override {
    const float* const x = AsFloats(x_in);
    float* const y = AsFloats(y_out);
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
      ForEachRowOfWindows(plane, [&](int64_t r, int64_t yi) {
        // From each window's first element on.
        const float* row = x + (plane * s_.height + Begin(r)) * s_.width;
        for (int64_t c = 0; c < n; ++c) y[yi + c] = row[Begin(c)];
        ForEachPlace(plane, r, [&](int64_t xi, int64_t c, int64_t windows) {
          MaxInto(x + xi, s_.stride, windows, y + yi + c);
        });
      });
    });
    return absl::OkStatus();
  }

  absl::Status Backward(int64_t samples, const void* x_in, const void* y_in,
                        const void* dy_in, void* dx_out) override {
    const float* const x = AsFloats(x_in);
    const float* const y = AsFloats(y_in);
    const float* const dy = AsFloats(dy_in);
    float* const dx = AsFloats(dx_out);
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
      ForEachRowOfWindows(plane, [&](int64_t r, int64_t yi) {
        std::copy_n(dy + yi, n, left.begin());
        ForEachPlace(plane, r, [&](int64_t xi, int64_t c, int64_t windows) {
          RouteToMaximum(x + xi, y + yi + c, s_.stride, windows,
                         left.data() + c, dx + xi);
        });
      });
    });
    return absl::OkStatus();
  }

 private:
  bool IsPairs() const {
    return s_.kernel == 2 && s_.stride == 2 && s_.padding == 0;
  }

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
  CpuAveragePool(const OneDnnContext* context, const PoolShape& shape)
      : Planes(context, shape) {
    for (int64_t r = 0; r < shape.output_height(); ++r) {
      for (int64_t c = 0; c < shape.output_width(); ++c) {
        shares_.push_back(1.0f / static_cast<float>(Length(r, shape.height) *
                                                    Length(c, shape.width)));
      }
    }
  }

  absl::Status Forward(int64_t samples, const void* x_in,
                       void* y_out) override {
    const float* const x = AsFloats(x_in);
    float* const y = AsFloats(y_out);
    const int64_t n = s_.output_width(), size = n * s_.output_height();
    ForEach(samples, [&](int64_t plane) {
      std::fill_n(y + plane * size, size, 0.0f);
      ForEachRowOfWindows(plane, [&](int64_t r, int64_t yi) {
        ForEachPlace(plane, r, [&](int64_t xi, int64_t c, int64_t windows) {
          AddInto(x + xi, s_.stride, windows, y + yi + c);
        });
        for (int64_t c = 0; c < n; ++c) y[yi + c] *= shares_[r * n + c];
      });
    });
    return absl::OkStatus();
  }

  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy_in, void* dx_out) override {
    const float* const dy = AsFloats(dy_in);
    float* const dx = AsFloats(dx_out);
    const int64_t n = s_.output_width();
    ForEach(samples, [&](int64_t plane) {
      std::fill_n(dx + plane * s_.height * s_.width, s_.height * s_.width,
                  0.0f);
      ForEachRowOfWindows(plane, [&](int64_t r, int64_t yi) {
        ForEachPlace(plane, r, [&](int64_t xi, int64_t c, int64_t windows) {
          const float* share = shares_.data() + r * n + c;
          for (int64_t i = 0; i < windows; ++i) {
            dx[xi + i * s_.stride] += share[i] * dy[yi + c + i];
          }
        });
      });
    });
    return absl::OkStatus();
  }

 private:
  std::vector<float> shares_;  // (output height, output width)
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

  absl::Status Forward(int64_t samples, const void* x_in,
                       void* y_out) override {
    const float* const x = AsFloats(x_in);
    float* const y = AsFloats(y_out);
    const float count = static_cast<float>(pixels_);
    ParallelFor(context_.threads, samples * channels_, pixels_,
                [&](int64_t begin, int64_t end) {
                  for (int64_t p = begin; p < end; ++p) {
                    y[p] = SumOfPlane(x + p * pixels_, pixels_) / count;
                  }
                });
    return absl::OkStatus();
  }

  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy_in, void* dx_out) override {
    const float* const dy = AsFloats(dy_in);
    float* const dx = AsFloats(dx_out);
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

OpOr<GlobalAveragePoolShape> MakeCpuOp(const OneDnnContext* context,
                                       const GlobalAveragePoolShape& shape,
                                       int64_t) {
  return std::make_unique<CpuGlobalAveragePool>(context, shape.channels,
                                                shape.pixels);
}

OpOr<PoolShape> MakeCpuOp(const OneDnnContext* context, const PoolShape& shape,
                          int64_t) {
  if (shape.kind == PoolKind::kMax) {
    return std::make_unique<CpuMaxPool>(context, shape);
  }
  return std::make_unique<CpuAveragePool>(context, shape);
}

}  // namespace sluice::kernels

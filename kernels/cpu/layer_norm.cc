// Rows come in packs, each of one thread, whose sums over rows are in float;
// those of all packs are added in double, in order. The packs do not depend on
// the threads, so the bits do not either.
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vector_loops.h"

SLUICE_AVX2_BEGIN
namespace sluice::kernels {
namespace {

// What x of a group becomes before gamma: (x - mean) inverse. Layer norm's
// groups are rows.
struct Group {
  float mean;
  float inverse;  // Of the deviation.

  template <typename T>
  T Of(T x) const {
    return (x - mean) * inverse;
  }
};

// The means of `count` groups of `size` floats, one behind the other.
void FindMeans(const float* x, int64_t count, int64_t size, Group* groups) {
  for (int64_t g = 0; g < count; ++g) {
    const double sum =
        SumInLanes(g * size, (g + 1) * size, [=](auto at) { return at(x); });
    groups[g].mean = static_cast<float>(sum / static_cast<double>(size));
  }
}

// `weight`: 1 / floats.
float InverseDeviation(double squares, double weight, double epsilon) {
  return static_cast<float>(1 / std::sqrt(squares * weight + epsilon));
}

// After FindMeans. Each step is taken for all groups before the next one, so
// that no group waits for the end of its own sum.
void FindDeviations(const float* x, int64_t count, int64_t size, double epsilon,
                    Group* groups) {
  const double weight = 1 / static_cast<double>(size);
  for (int64_t g = 0; g < count; ++g) {
    const float mean = groups[g].mean;
    const auto [squares] =
        SumsInLanes<1>(g * size, (g + 1) * size, [=](auto at, auto& sums) {
          const auto d = at(x) - mean;
          sums[0] = MulAdd(d, d, sums[0]);
        });
    groups[g].inverse = InverseDeviation(squares, weight, epsilon);
  }
}

// What Backward adds to g = gamma dy of a group, where x became h.
struct Line {
  float slope;
  float height;

  template <typename T>
  T Of(T h) const {
    return MulAdd(T{} + slope, h, T{} + height);
  }
};

// Of d = x - mean and g over a group: the sums of d^2, g and g d.
using Products = std::array<double, 3>;

template <typename T>
void AddProducts(T d, T g, std::array<T, 3>* sums) {
  auto& [of_squares, of_g, of_products] = *sums;
  of_squares = MulAdd(d, d, of_squares);
  of_g += g;
  of_products = MulAdd(g, d, of_products);
}

// Its deviation and line.
Line LineOf(const Products& sums, int64_t size, double epsilon, Group* group) {
  const double weight = 1 / static_cast<double>(size);
  group->inverse = InverseDeviation(sums[0], weight, epsilon);
  return {static_cast<float>(-sums[2] * group->inverse * weight),
          static_cast<float>(-sums[1] * weight)};
}

// Of rows.
class CpuLayerNorm : public LayerNormOp {
 public:
  CpuLayerNorm(const OneDnnContext* context, const LayerNormShape& shape)
      : context_(*context), s_(shape) {}

  absl::Status Forward(int64_t samples, const void* x, const float* gamma,
                       const float* beta, void* y) override {
    ForEachPack(samples, 4, [&](int64_t pack, int64_t begin, int64_t rows) {
      const float* const from = AsFloats(x) + begin * s_.features;
      float* const to = AsFloats(y) + begin * s_.features;
      Group groups[kPack];
      FindMeans(from, rows, s_.features, groups);
      FindDeviations(from, rows, s_.features, s_.epsilon, groups);
      for (int64_t row = 0; row < rows; ++row) {
        const Group of = groups[row];
        const int64_t first = row * s_.features;
        ForEachAt(0, s_.features, [=](auto at) {
          at.Put(to + first, at(gamma) * of.Of(at(from + first)) + at(beta));
        });
      }
    });
    return absl::OkStatus();
  }

  absl::Status Backward(int64_t samples, const void* x, const float* gamma,
                        const void* dy, void* dx, float* dgamma,
                        float* dbeta) override {
    const int64_t features = s_.features;
    const int64_t packs = (samples * s_.rows + kPack - 1) / kPack;
    sums_.assign((2 * packs * features + kVector - 1) / kVector, Floats8{});
    float* const sums = reinterpret_cast<float*>(sums_.data());
    ForEachPack(samples, 8, [&](int64_t pack, int64_t begin, int64_t rows) {
      const int64_t at = begin * features;
      BackwardPack(rows, AsFloats(x) + at, gamma, AsFloats(dy) + at,
                   dx != nullptr ? AsFloats(dx) + at : nullptr,
                   sums + 2 * pack * features);
    });
    totals_.assign(2 * features, 0);
    double* const totals = totals_.data();
    for (int64_t pack = 0; pack < packs; ++pack) {
      const float* const more = sums + 2 * pack * features;
      for (int64_t c = 0; c < 2 * features; ++c) totals[c] += more[c];
    }
    for (int64_t c = 0; c < features; ++c) {
      dgamma[c] = static_cast<float>(totals[c]);
      dbeta[c] = static_cast<float>(totals[features + c]);
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kPack = 64;  // Rows.

  // f(pack, its first row, its rows) for each pack; `work`: floats touched for
  // each of its own.
  template <typename F>
  void ForEachPack(int64_t samples, int64_t work, F f) const {
    const int64_t rows = samples * s_.rows;
    ParallelFor(context_.threads, (rows + kPack - 1) / kPack,
                work * kPack * s_.features, [&](int64_t begin, int64_t end) {
                  for (int64_t pack = begin; pack < end; ++pack) {
                    const int64_t first = pack * kPack;
                    f(pack, first, std::min(kPack, rows - first));
                  }
                });
  }

  // `sums`: the pack's, of each feature for gamma, then for beta.
  void BackwardPack(int64_t rows, const float* x, const float* gamma,
                    const float* dy, float* dx, float* sums) const {
    const int64_t features = s_.features;
    Group groups[kPack];
    FindMeans(x, rows, features, groups);
    Products products[kPack];
    for (int64_t row = 0; row < rows; ++row) {
      const float mean = groups[row].mean;
      const float* const from = x + row * features;
      const float* const above = dy + row * features;
      products[row] = SumsInLanes<3>(0, features, [=](auto at, auto& sums) {
        AddProducts(at(from) - mean, at(gamma) * at(above), &sums);
      });
    }
    Line lines[kPack];
    for (int64_t row = 0; row < rows; ++row) {
      lines[row] = LineOf(products[row], features, s_.epsilon, &groups[row]);
    }
    for (int64_t row = 0; row < rows; ++row) {
      const Group of = groups[row];
      const Line line = lines[row];
      const float* const from = x + row * features;
      const float* const above = dy + row * features;
      float* const to = dx + row * features;
      float* const of_gamma = sums;
      float* const of_beta = sums + features;
      const bool input_too = dx != nullptr;
      ForEachAt(0, features, [=](auto at) {
        const auto h = of.Of(at(from)), a = at(above);
        at.Put(of_gamma, MulAdd(a, h, at(of_gamma)));
        at.Put(of_beta, at(of_beta) + a);
        if (input_too) at.Put(to, of.inverse * (at(gamma) * a + line.Of(h)));
      });
    }
  }

  const OneDnnContext& context_;
  const LayerNormShape s_;

  // Scratch, written by every Backward. `sums_` begins where a vector may.
  std::vector<Floats8> sums_;
  std::vector<double> totals_;
};

// Of groups of channels, each of which is a plane; a group lies behind the
// other.
class CpuGroupNorm : public LayerNormOp {
 public:
  CpuGroupNorm(const OneDnnContext* context, const LayerNormShape& shape)
      : context_(*context), s_(shape) {}

  absl::Status Forward(int64_t samples, const void* x, const float* gamma,
                       const float* beta, void* y) override {
    ForEachGroup(samples, [&](int64_t group) {
      const float* from = AsFloats(x) + group * s_.group_size();
      float* to = AsFloats(y) + group * s_.group_size();
      Group of;
      FindMeans(from, 1, s_.group_size(), &of);
      FindDeviations(from, 1, s_.group_size(), s_.epsilon, &of);
      ForEachPlane(group, [&](int64_t first, int64_t channel) {
        const float factor = gamma[channel], height = beta[channel];
        ForEachAt(first, first + s_.pixels, [=](auto at) {
          at.Put(to, factor * of.Of(at(from)) + height);
        });
      });
    });
    return absl::OkStatus();
  }

  absl::Status Backward(int64_t samples, const void* x_in, const float* gamma,
                        const void* dy_in, void* dx, float* dgamma,
                        float* dbeta) override {
    const float* const x = AsFloats(x_in);
    const float* const dy = AsFloats(dy_in);
    groups_.resize(samples * s_.rows * s_.groups);
    ForEachGroup(samples, [&](int64_t group) {
      const int64_t at = group * s_.group_size();
      InputGradient(group, x + at, gamma, dy + at,
                    dx != nullptr ? AsFloats(dx) + at : nullptr);
    });
    // Each thread has some of the channels and adds up all rows in order.
    ParallelFor(context_.threads, s_.features,
                2 * samples * s_.rows * s_.pixels,
                [&](int64_t begin, int64_t end) {
                  for (int64_t c = begin; c < end; ++c) {
                    const auto [of_gamma, of_beta] =
                        ChannelSums(samples * s_.rows, c, x, dy);
                    dgamma[c] = static_cast<float>(of_gamma);
                    dbeta[c] = static_cast<float>(of_beta);
                  }
                });
    return absl::OkStatus();
  }

 private:
  template <typename F>
  void ForEachGroup(int64_t samples, F f) const {
    ParallelFor(context_.threads, samples * s_.rows * s_.groups,
                4 * s_.group_size(), [&](int64_t begin, int64_t end) {
                  for (int64_t group = begin; group < end; ++group) f(group);
                });
  }

  // Calls f(first, channel) for each plane of the group, which begins at
  // `first` in it.
  template <typename F>
  void ForEachPlane(int64_t group, F f) const {
    const int64_t channels = s_.group_features();
    for (int64_t c = 0; c < channels; ++c) {
      f(c * s_.pixels, group % s_.groups * channels + c);
    }
  }

  // Writes groups_[group], and dx unless it is null.
  void InputGradient(int64_t group, const float* x, const float* gamma,
                     const float* dy, float* dx) {
    Group& of = groups_[group];
    FindMeans(x, 1, s_.group_size(), &of);
    Products sums = {};
    ForEachPlane(group, [&, mean = of.mean](int64_t first, int64_t channel) {
      const float factor = gamma[channel];
      const Products more =
          SumsInLanes<3>(first, first + s_.pixels, [=](auto at, auto& sums) {
            AddProducts(at(x) - mean, factor * at(dy), &sums);
          });
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += more[i];
    });
    const Line line = LineOf(sums, s_.group_size(), s_.epsilon, &of);
    if (dx == nullptr) return;
    ForEachPlane(group, [&](int64_t first, int64_t channel) {
      const float factor = gamma[channel];
      ForEachAt(first, first + s_.pixels, [=](auto at) {
        at.Put(dx, of.inverse * (factor * at(dy) + line.Of(of.Of(at(x)))));
      });
    });
  }

  // Of dy times what x becomes, and of dy; after groups_ has been written.
  std::array<double, 2> ChannelSums(int64_t rows, int64_t channel,
                                    const float* x, const float* dy) const {
    std::array<double, 2> sums = {};
    for (int64_t row = 0; row < rows; ++row) {
      const Group of = groups_[row * s_.groups + channel / s_.group_features()];
      const int64_t first = (row * s_.features + channel) * s_.pixels;
      const auto more =
          SumsInLanes<2>(first, first + s_.pixels, [=](auto at, auto& sums) {
            sums = {MulAdd(at(dy), of.Of(at(x)), sums[0]), sums[1] + at(dy)};
          });
      sums = {sums[0] + more[0], sums[1] + more[1]};
    }
    return sums;
  }

  const OneDnnContext& context_;
  const LayerNormShape s_;

  std::vector<Group> groups_;  // Scratch, written by Backward.
};

}  // namespace

OpOr<LayerNormShape> MakeCpuOp(const OneDnnContext* context,
                               const LayerNormShape& shape, int64_t) {
  if (shape.groups == 1 && shape.pixels == 1) {
    return std::make_unique<CpuLayerNorm>(context, shape);
  }
  return std::make_unique<CpuGroupNorm>(context, shape);
}

}  // namespace sluice::kernels
SLUICE_AVX2_END

#include <cmath>
#include <limits>
#include <vector>

#include "common/status_macros.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/linear_op.h"
#include "kernels/cpu/threads.h"
#include "kernels/cpu/vector_loops.h"

SLUICE_AVX2_BEGIN
// Products and softmax by oneDNN, a sample at a time with all its heads: their
// rows are taken where they lie in x and y, and the scores of one sample stay
// in cache.
namespace sluice::kernels {
namespace {

using Desc = dnnl::memory::desc;
using Type = dnnl::memory::data_type;

// Of each head a matrix c = a b.
class HeadProducts {
 public:
  HeadProducts(const OneDnnContext& context, const Desc& a, const Desc& b,
               const Desc& c)
      : a_(Wrap(a, context)),
        b_(Wrap(b, context)),
        c_(Wrap(c, context)),
        product_({{a, b, c}, ScratchOutside(), context.engine}) {}

  void Run(const OneDnnContext& context, const float* a, const float* b,
           float* c) {
    a_.set_data_handle(const_cast<float*>(a));
    b_.set_data_handle(const_cast<float*>(b));
    c_.set_data_handle(c);
    product_.Execute(
        context,
        {{DNNL_ARG_SRC, a_}, {DNNL_ARG_WEIGHTS, b_}, {DNNL_ARG_DST, c_}});
  }

 private:
  dnnl::memory a_, b_, c_;
  Primitive<dnnl::matmul> product_;
};

// How the matrices of one sample's heads lie in memory.
struct Layouts {
  explicit Layouts(const AttentionShape& shape) : s(shape) {}

  // (length, head_size), of queries, keys or values: rows in x.
  Desc InX() const { return Matrix(3 * s.features()); }
  // The same of y.
  Desc InY() const { return Matrix(s.features()); }
  Desc InXTransposed() const { return Transposed(3 * s.features()); }
  // Scores (length, length).
  Desc Square() const {
    return {{s.heads, s.length, s.length},
            Type::f32,
            {s.length * s.length, s.length, 1}};
  }
  Desc SquareTransposed() const {
    return {{s.heads, s.length, s.length},
            Type::f32,
            {s.length * s.length, 1, s.length}};
  }

  AttentionShape s;

 private:
  Desc Matrix(int64_t stride) const {
    return {
        {s.heads, s.length, s.head_size}, Type::f32, {s.head_size, stride, 1}};
  }
  Desc Transposed(int64_t stride) const {
    return {
        {s.heads, s.head_size, s.length}, Type::f32, {s.head_size, 1, stride}};
  }
};

// The softmax of rows of scores, in place.
class RowSoftmax {
 public:
  RowSoftmax(const OneDnnContext& context, int64_t rows, int64_t size)
      : rows_(Wrap(FloatDesc({rows, size}, dnnl::memory::format_tag::ab),
                   context)),
        softmax_({{dnnl::prop_kind::forward_inference, rows_.get_desc(), 1},
                  ScratchOutside(),
                  context.engine}) {}

  void Run(const OneDnnContext& context, float* scores) {
    rows_.set_data_handle(scores);
    softmax_.Execute(context, {{DNNL_ARG_SRC, rows_}, {DNNL_ARG_DST, rows_}});
  }

 private:
  dnnl::memory rows_;
  Primitive<dnnl::softmax_forward> softmax_;
};

struct PreparedAttention {
  PreparedAttention(const OneDnnContext& context, const Layouts& in)
      : scores(context, in.InX(), in.InXTransposed(), in.Square()),
        outputs(context, in.Square(), in.InX(), in.InY()),
        to_probabilities(context, in.InY(), in.InXTransposed(), in.Square()),
        to_queries(context, in.Square(), in.InX(), in.InX()),
        to_keys(context, in.SquareTransposed(), in.InX(), in.InX()),
        to_values(context, in.SquareTransposed(), in.InY(), in.InX()),
        softmax(context, in.s.heads * in.s.length, in.s.length) {}

  HeadProducts scores, outputs;
  HeadProducts to_probabilities, to_queries, to_keys, to_values;
  RowSoftmax softmax;
};

constexpr char kName[] = "attention";

class CpuAttention : public MapOp {
 public:
  CpuAttention(const OneDnnContext* context, const AttentionShape& shape)
      : context_(*context),
        s_(shape),
        scale_(static_cast<float>(
            1 / std::sqrt(static_cast<double>(shape.head_size)))) {}

  absl::Status Prepare() {
    return CatchOneDnn(absl::StatusCode::kInvalidArgument, kName, [&] {
      prepared_ = std::make_unique<PreparedAttention>(context_, Layouts(s_));
      probabilities_.resize(s_.heads * s_.length * s_.length);
      gradients_.resize(probabilities_.size());
    });
  }

  absl::Status Forward(int64_t samples, const void* x, void* y) override {
    return CatchOneDnn(absl::StatusCode::kInternal, kName, [&] {
      for (int64_t n = 0; n < samples; ++n) {
        const float* of_sample = AsFloats(x) + n * s_.input_size();
        ComputeProbabilities(of_sample);
        prepared_->outputs.Run(context_, probabilities_.data(),
                               of_sample + 2 * s_.features(),
                               AsFloats(y) + n * s_.output_size());
      }
    });
  }

  // Takes the probabilities anew: two of seven products, in place of as much
  // memory for them as for many layers.
  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy, void* dx) override {
    return CatchOneDnn(absl::StatusCode::kInternal, kName, [&] {
      for (int64_t n = 0; n < samples; ++n) {
        BackwardOfSample(AsFloats(x) + n * s_.input_size(),
                         AsFloats(dy) + n * s_.output_size(),
                         AsFloats(dx) + n * s_.input_size());
      }
    });
  }

 private:
  void ComputeProbabilities(const float* x) {
    float* const scores = probabilities_.data();
    prepared_->scores.Run(context_, x, x + s_.features(), scores);
    ForEachRow(s_.length, [&](int64_t place, int64_t at) {
      for (int64_t j = 0; j <= place; ++j) scores[at + j] *= scale_;
      // exp makes of these exactly 0.
      std::fill(scores + at + place + 1, scores + at + s_.length,
                -std::numeric_limits<float>::infinity());
    });
    prepared_->softmax.Run(context_, scores);
  }

  void BackwardOfSample(const float* x, const float* dy, float* dx) {
    ComputeProbabilities(x);
    const int64_t f = s_.features();
    const float* const p = probabilities_.data();
    float* const g = gradients_.data();
    prepared_->to_values.Run(context_, p, dy, dx + 2 * f);
    prepared_->to_probabilities.Run(context_, dy, x + 2 * f, g);
    ForEachRow(2 * s_.length, [&](int64_t place, int64_t at) {
      const auto mean = static_cast<float>(
          SumInLanes(at, at + place + 1, [=](auto j) { return j(p) * j(g); }));
      for (int64_t j = 0; j <= place; ++j) {
        g[at + j] = scale_ * (p[at + j] * (g[at + j] - mean));
      }
      std::fill(g + at + place + 1, g + at + s_.length, 0.0f);
    });
    prepared_->to_queries.Run(context_, g, x + f, dx);
    prepared_->to_keys.Run(context_, g, x, dx + f);
  }

  // f(place, index of its first score) of each row of all heads; `work` is a
  // row's cost.
  template <typename F>
  void ForEachRow(int64_t work, F f) const {
    ParallelFor(context_.threads, s_.heads * s_.length, work,
                [&](int64_t begin, int64_t end) {
                  for (int64_t row = begin; row < end; ++row) {
                    f(row % s_.length, row * s_.length);
                  }
                });
  }

  const OneDnnContext& context_;
  const AttentionShape s_;
  const float scale_;
  std::unique_ptr<PreparedAttention> prepared_;

  // Scratch, written by every call before it is read: (heads, length, length).
  std::vector<float> probabilities_;
  std::vector<float> gradients_;
};

}  // namespace

OpOr<AttentionShape> MakeCpuOp(const OneDnnContext* context,
                               const AttentionShape& shape, int64_t) {
  auto op = std::make_unique<CpuAttention>(context, shape);
  SLUICE_RETURN_IF_ERROR(op->Prepare());
  return op;
}

}  // namespace sluice::kernels
SLUICE_AVX2_END

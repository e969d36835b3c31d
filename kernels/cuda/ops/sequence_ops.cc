// Embedding, layer norm and attention.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/ops/dense_products.h"
#include "kernels/cuda/ops/gpu_op.h"
#include "kernels/cuda/ops/library_op.h"
#include "kernels/cuda/ops/ops.h"

namespace sluice::kernels::cuda {
namespace {

class Embedding : public GpuOp<EmbeddingShape> {
 public:
  using GpuOp::GpuOp;

  absl::Status Forward(int64_t samples, const float* x, const float* token,
                       const float* position, void* y) override {
    return Launched(EmbeddingForward(stream(), precision(), shape_, samples, x,
                                     token, position, y));
  }

  absl::Status Backward(int64_t samples, const float* x, const void* dy,
                        bool add, float* dtoken, float* dposition) override {
    if (samples == 0) return BackwardOfNone(add, dtoken, dposition);
    SLUICE_RETURN_IF_ERROR(Launched(EmbeddingTokenGradient(
        stream(), precision(), shape_, samples, x, dy, add, dtoken)));
    // A sum over samples, as a bias's is.
    const int64_t positions = shape_.position_size();
    SLUICE_ASSIGN_OR_RETURN(
        char* const parts,
        Scratch(ChannelSumParts(precision(), samples, positions, 1) *
                static_cast<int64_t>(sizeof(Pair))));
    return Launched(BiasGradient(stream(), precision(), samples, positions, 1,
                                 dy, reinterpret_cast<Pair*>(parts),
                                 dposition));
  }

 private:
  absl::Status BackwardOfNone(bool add, float* dtoken, float* dposition) {
    if (!add) {
      SLUICE_RETURN_IF_ERROR(Zero(dtoken, shape_.token_size()));
    }
    return Zero(dposition, shape_.position_size());
  }
};

class LayerNorm : public GpuOp<LayerNormShape> {
 public:
  using GpuOp::GpuOp;

  absl::Status Forward(int64_t samples, const void* x, const float* gamma,
                       const float* beta, void* y) override {
    return Launched(LayerNormForward(stream(), precision(), shape_, samples, x,
                                     gamma, beta, y));
  }

  absl::Status Backward(int64_t samples, const void* x, const float* gamma,
                        const void* dy, void* dx, float* dgamma,
                        float* dbeta) override {
    if (samples == 0) {
      SLUICE_RETURN_IF_ERROR(Zero(dgamma, shape_.features));
      return Zero(dbeta, shape_.features);
    }
    SLUICE_ASSIGN_OR_RETURN(
        char* const scratch,
        Scratch(LayerNormScratch(precision(), shape_, samples)));
    return Launched(LayerNormBackward(stream(), precision(), shape_, samples, x,
                                      gamma, dy, scratch, dx, dgamma, dbeta));
  }
};

// A product for each head of each sample. In a dense layer's terms, which
// dense_products.h has for the library:
struct HeadProducts {
  // (length, length) = (length, head_size) times another's transpose: the
  // scores from queries and keys, the gradient at the probabilities from dy and
  // the values.
  std::unique_ptr<Product> scores;
  // (length, head_size) = (length, length) times (length, head_size): y from
  // probabilities and values, dq from the scores' gradient and the keys.
  std::unique_ptr<Product> outputs;
  // The same of the transpose of the first: dv from the probabilities and dy,
  // dk from the scores' gradient and the queries.
  std::unique_ptr<Product> transposed;

  // Of all factors.
  Precision precision() const { return scores->shape().precision; }
  int64_t workspace_bytes() const {
    return std::max({scores->workspace_bytes(), outputs->workspace_bytes(),
                     transposed->workspace_bytes()});
  }
};

// All heads of all samples at once, in scratch. Of 8 samples, 12 heads and a
// length of 1024 the probabilities are 8 * 12 * 1024^2 floats, 384 MiB, and
// their gradient as much. Kept from forward to backward they would be 4.5 GiB
// in a model of 12 such layers; so Backward makes them again, for one product
// more and a pass over the scores.
class Attention : public LibraryOp<AttentionShape, HeadProducts> {
 public:
  using LibraryOp::LibraryOp;

  absl::Status Forward(int64_t samples, const void* x, void* y) override {
    if (samples == 0) return absl::OkStatus();
    SLUICE_ASSIGN_OR_RETURN(HeadProducts * products, For(samples));
    SLUICE_ASSIGN_OR_RETURN(const Arrays a, Take(samples, *products));
    SLUICE_RETURN_IF_ERROR(SplitInput(samples, x, a));
    SLUICE_RETURN_IF_ERROR(Probabilities(samples, products, a));
    SLUICE_ASSIGN_OR_RETURN(const void* p, Factor(samples, a.probabilities, a));
    SLUICE_RETURN_IF_ERROR(
        Run(products->outputs.get(), a.value, p, a.results[0], a));
    return Merge(samples, 1, a, y);
  }

  // Takes the probabilities anew, in place of as much memory for them as for
  // many layers.
  absl::Status Backward(int64_t samples, const void* x, const void* y,
                        const void* dy, void* dx) override {
    if (samples == 0) return absl::OkStatus();
    SLUICE_ASSIGN_OR_RETURN(HeadProducts * products, For(samples));
    SLUICE_ASSIGN_OR_RETURN(const Arrays a, Take(samples, *products));
    auto* const dq = a.results[0];
    auto* const dk = a.results[1];
    auto* const dv = a.results[2];
    SLUICE_RETURN_IF_ERROR(SplitInput(samples, x, a));
    SLUICE_RETURN_IF_ERROR(Probabilities(samples, products, a));
    SLUICE_RETURN_IF_ERROR(Split(samples, 1, 0, dy, a, a.dy));
    SLUICE_RETURN_IF_ERROR(
        Run(products->scores.get(), a.value, a.dy, a.gradient, a));
    SLUICE_ASSIGN_OR_RETURN(const void* p, Factor(samples, a.probabilities, a));
    SLUICE_RETURN_IF_ERROR(Run(products->transposed.get(), a.dy, p, dv, a));
    SLUICE_RETURN_IF_ERROR(Launched(CausalSoftmaxGradient(
        stream(), shape_, samples, a.probabilities, a.gradient)));
    SLUICE_ASSIGN_OR_RETURN(const void* g, Factor(samples, a.gradient, a));
    SLUICE_RETURN_IF_ERROR(Run(products->outputs.get(), a.key, g, dq, a));
    SLUICE_RETURN_IF_ERROR(Run(products->transposed.get(), a.query, g, dk, a));
    return Merge(samples, 3, a, dx);
  }

 private:
  // Scratch of one call, each aligned to 256 bytes.
  struct Arrays {
    Precision precision;  // Of the products' factors.
    // Factors (samples, heads, length, head_size).
    void* query;
    void* key;
    void* value;
    void* dy;
    // What products make of them: y; or dq, dk, dv.
    float* results[3];
    // (samples, heads, length, length), and one of them as a factor.
    float* probabilities;
    float* gradient;
    void* factor;
    void* workspace;
  };

  absl::StatusOr<std::unique_ptr<HeadProducts>> PrepareIn(
      Precision precision, int64_t samples) override {
    const auto prepare = [&](ProductShape shape) {
      shape.batch = samples * shape_.heads;
      shape.precision = precision;
      return gpu_.PrepareProduct(shape);
    };
    const DenseShape pairs = {shape_.head_size, shape_.length, false};
    auto made = std::make_unique<HeadProducts>();
    SLUICE_ASSIGN_OR_RETURN(
        made->scores, prepare(ForwardProduct(pairs, shape_.length, false)));
    SLUICE_ASSIGN_OR_RETURN(
        made->outputs, prepare(InputGradientProduct(pairs, shape_.length)));
    SLUICE_ASSIGN_OR_RETURN(
        made->transposed, prepare(WeightGradientProduct(pairs, shape_.length)));
    return made;
  }

  absl::StatusOr<Arrays> Take(int64_t samples, const HeadProducts& products) {
    const auto round_up = [](int64_t bytes) {
      return (bytes + 255) / 256 * 256;
    };
    const Precision precision = products.precision();
    const int64_t rows = samples * shape_.output_size();
    const int64_t factors = round_up(rows * BytesOf(precision));
    const int64_t results = round_up(rows * sizeof(float));
    const int64_t squares = round_up(Squares(samples) * sizeof(float));
    const int64_t narrow = Is16Bit(precision)
                               ? round_up(Squares(samples) * BytesOf(precision))
                               : 0;
    SLUICE_ASSIGN_OR_RETURN(
        char* next, Scratch(4 * factors + 3 * results + 2 * squares + narrow +
                            products.workspace_bytes()));
    const auto take = [&next](int64_t bytes) -> void* {
      return std::exchange(next, next + bytes);
    };
    const auto floats = [&](int64_t bytes) {
      return static_cast<float*>(take(bytes));
    };
    return Arrays{
        .precision = precision,
        .query = take(factors),
        .key = take(factors),
        .value = take(factors),
        .dy = take(factors),
        .results = {floats(results), floats(results), floats(results)},
        .probabilities = floats(squares),
        .gradient = floats(squares),
        .factor = take(narrow),
        .workspace = next,
    };
  }

  // Numbers of the scores of all heads.
  int64_t Squares(int64_t samples) const {
    return samples * shape_.heads * shape_.length * shape_.length;
  }

  // `to`, a factor, is part `part` of `from`.
  absl::Status Split(int64_t samples, int64_t parts, int64_t part,
                     const void* from, const Arrays& a, void* to) {
    return Launched(SplitHeads(stream(), precision(), a.precision, shape_,
                               samples, parts, part, from, to));
  }

  absl::Status SplitInput(int64_t samples, const void* x, const Arrays& a) {
    void* const parts[3] = {a.query, a.key, a.value};
    for (int part = 0; part < 3; ++part) {
      SLUICE_RETURN_IF_ERROR(Split(samples, 3, part, x, a, parts[part]));
    }
    return absl::OkStatus();
  }

  absl::Status Merge(int64_t samples, int64_t parts, const Arrays& a,
                     void* to) {
    return Launched(MergeHeads(stream(), precision(), shape_, samples, parts,
                               a.results, to));
  }

  absl::Status Probabilities(int64_t samples, HeadProducts* products,
                             const Arrays& a) {
    SLUICE_RETURN_IF_ERROR(
        Run(products->scores.get(), a.key, a.query, a.probabilities, a));
    return Launched(CausalSoftmax(stream(), shape_, samples, a.probabilities));
  }

  // `squares`, those of all heads, as a factor: good until the next is made.
  absl::StatusOr<const void*> Factor(int64_t samples, const float* squares,
                                     const Arrays& a) {
    if (!Is16Bit(a.precision)) return squares;
    const int64_t size = Squares(samples);
    SLUICE_RETURN_IF_ERROR(
        Launched(Convert(stream(), Rows(Precision::kFp32, 1, size), squares,
                         Rows(a.precision, 1, size), a.factor)));
    return a.factor;
  }

  absl::Status Run(Product* product, const void* first, const void* second,
                   float* d, const Arrays& a) {
    return Named(name_, product->Run(first, second, nullptr, d, a.workspace));
  }
};

}  // namespace

OpOr<EmbeddingShape> MakeOp(GpuDevice* gpu, const EmbeddingShape& shape,
                            int64_t max_samples) {
  std::string name = absl::StrCat("embedding ", shape.vocabulary, " to ",
                                  shape.features, ", length ", shape.length);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, shape.vocabulary, shape.features));
  return MakeSized<Embedding>(gpu, std::move(name), shape, max_samples,
                              {shape.output_size()});
}

OpOr<LayerNormShape> MakeOp(GpuDevice* gpu, const LayerNormShape& shape,
                            int64_t max_samples) {
  return MakeSized<LayerNorm>(
      gpu, absl::StrCat("layer_norm ", shape.rows, "x", shape.features), shape,
      max_samples, {shape.size()});
}

OpOr<AttentionShape> MakeOp(GpuDevice* gpu, const AttentionShape& shape,
                            int64_t max_samples) {
  SLUICE_ASSIGN_OR_RETURN(
      auto op,
      MakeSized<Attention>(
          gpu,
          absl::StrCat("attention ", shape.heads, "x", shape.head_size,
                       ", length ", shape.length),
          shape, max_samples,
          {shape.input_size(), shape.heads * shape.length * shape.length}));
  SLUICE_RETURN_IF_ERROR(op->For(max_samples).status());
  return op;
}

}  // namespace sluice::kernels::cuda

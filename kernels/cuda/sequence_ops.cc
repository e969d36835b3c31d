// Embedding, layer norm and attention.
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/status_macros.h"
#include "kernels/cuda/dense_products.h"
#include "kernels/cuda/ops.h"

namespace sluice::kernels::cuda {
namespace {

class Embedding : public EmbeddingOp {
 public:
  Embedding(OpContext* context, std::string name, const EmbeddingShape& shape)
      : context_(*context), name_(std::move(name)), shape_(shape) {}

  absl::Status Forward(int64_t samples, const float* x, const float* token,
                       const float* position, float* y) override {
    return context_.Launched(
        name_, EmbeddingForward(context_.stream(), shape_, samples, x, token,
                                position, y));
  }

  absl::Status Backward(int64_t samples, const float* x, const float* dy,
                        bool add, float* dtoken, float* dposition) override {
    if (samples == 0) return BackwardOfNone(add, dtoken, dposition);
    SLUICE_RETURN_IF_ERROR(context_.Launched(
        name_, EmbeddingTokenGradient(context_.stream(), shape_, samples, x, dy,
                                      add, dtoken)));
    // A sum over samples, as a bias's is.
    const int64_t positions = shape_.position_size();
    auto parts = context_.Scratch(ChannelSumParts(samples, positions, 1) *
                                  static_cast<int64_t>(sizeof(Pair)));
    if (!parts.ok()) return Named(name_, parts.status());
    return context_.Launched(
        name_, BiasGradient(context_.stream(), samples, positions, 1, dy,
                            reinterpret_cast<Pair*>(*parts), dposition));
  }

 private:
  absl::Status BackwardOfNone(bool add, float* dtoken, float* dposition) {
    Backend& backend = context_.backend();
    if (!add) {
      SLUICE_RETURN_IF_ERROR(Named(
          name_, backend.Zero(dtoken, shape_.token_size() * sizeof(float))));
    }
    return Named(
        name_, backend.Zero(dposition, shape_.position_size() * sizeof(float)));
  }

  OpContext& context_;
  const std::string name_;
  const EmbeddingShape shape_;
};

class LayerNorm : public LayerNormOp {
 public:
  LayerNorm(OpContext* context, std::string name, const LayerNormShape& shape)
      : context_(*context), name_(std::move(name)), shape_(shape) {}

  absl::Status Forward(int64_t samples, const float* x, const float* gamma,
                       const float* beta, float* y) override {
    return context_.Launched(
        name_, LayerNormForward(context_.stream(), shape_,
                                samples * shape_.rows, x, gamma, beta, y));
  }

  absl::Status Backward(int64_t samples, const float* x, const float* gamma,
                        const float* dy, float* dx, float* dgamma,
                        float* dbeta) override {
    const int64_t rows = samples * shape_.rows;
    if (rows == 0) {
      Backend& backend = context_.backend();
      const int64_t bytes = shape_.features * sizeof(float);
      SLUICE_RETURN_IF_ERROR(Named(name_, backend.Zero(dgamma, bytes)));
      return Named(name_, backend.Zero(dbeta, bytes));
    }
    const int64_t parts = ChannelSumParts(rows, shape_.features, 1) *
                          static_cast<int64_t>(sizeof(Pair));
    auto memory = context_.Scratch(parts + 2 * rows * sizeof(float));
    if (!memory.ok()) return Named(name_, memory.status());
    auto* statistics = reinterpret_cast<float*>(*memory + parts);
    SLUICE_RETURN_IF_ERROR(context_.Launched(
        name_, LayerNormBackward(context_.stream(), shape_, rows, x, gamma, dy,
                                 statistics, dx)));
    return context_.Launched(
        name_, LayerNormParameterGradients(
                   context_.stream(), rows, shape_.features, x, dy, statistics,
                   reinterpret_cast<Pair*>(*memory), dgamma, dbeta));
  }

 private:
  OpContext& context_;
  const std::string name_;
  const LayerNormShape shape_;
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
};

class Attention : public MapOp {
 public:
  Attention(OpContext* context, std::string name, const AttentionShape& shape)
      : context_(*context), name_(std::move(name)), shape_(shape) {}

  absl::StatusOr<HeadProducts*> For(int64_t samples) {
    auto found = prepared_.For(samples, [this](int64_t n) { return Make(n); });
    if (!found.ok()) return Named(name_, found.status());
    return found;
  }

  absl::Status Forward(int64_t samples, const float* x, float* y) override {
    if (samples == 0) return absl::OkStatus();
    SLUICE_ASSIGN_OR_RETURN(HeadProducts * products, For(samples));
    SLUICE_ASSIGN_OR_RETURN(const Arrays a, Take(samples, *products));
    SLUICE_RETURN_IF_ERROR(Split(samples, x, a));
    SLUICE_RETURN_IF_ERROR(Probabilities(samples, products, a));
    SLUICE_RETURN_IF_ERROR(
        Run(products->outputs.get(), a.value, a.probabilities, a.output, a));
    const float* const merged[3] = {a.output, nullptr, nullptr};
    return context_.Launched(
        name_, MergeHeads(context_.stream(), shape_, samples, 1, merged, y));
  }

  // Takes the probabilities anew, in place of as much memory for them as for
  // many layers.
  absl::Status Backward(int64_t samples, const float* x, const float* y,
                        const float* dy, float* dx) override {
    if (samples == 0) return absl::OkStatus();
    SLUICE_ASSIGN_OR_RETURN(HeadProducts * products, For(samples));
    SLUICE_ASSIGN_OR_RETURN(const Arrays a, Take(samples, *products));
    SLUICE_RETURN_IF_ERROR(Split(samples, x, a));
    SLUICE_RETURN_IF_ERROR(Probabilities(samples, products, a));
    SLUICE_RETURN_IF_ERROR(context_.Launched(
        name_,
        SplitHeads(context_.stream(), shape_, samples, 1, 0, dy, a.output)));
    SLUICE_RETURN_IF_ERROR(
        Run(products->scores.get(), a.value, a.output, a.gradient, a));
    // The values are done with, then the queries, then the keys.
    SLUICE_RETURN_IF_ERROR(
        Run(products->transposed.get(), a.output, a.probabilities, a.value, a));
    SLUICE_RETURN_IF_ERROR(context_.Launched(
        name_, CausalSoftmaxGradient(context_.stream(), shape_, samples,
                                     a.probabilities, a.gradient)));
    SLUICE_RETURN_IF_ERROR(
        Run(products->outputs.get(), a.key, a.gradient, a.output, a));
    SLUICE_RETURN_IF_ERROR(
        Run(products->transposed.get(), a.query, a.gradient, a.key, a));
    const float* const merged[3] = {a.output, a.key, a.value};
    return context_.Launched(
        name_, MergeHeads(context_.stream(), shape_, samples, 3, merged, dx));
  }

 private:
  // Scratch of one call, each aligned to 256 bytes.
  struct Arrays {
    // (samples, heads, length, head_size)
    float* query;
    float* key;
    float* value;
    float* output;
    // (samples, heads, length, length)
    float* probabilities;
    float* gradient;
    // The factors of a product, where they have 16 bits.
    uint16_t* narrow_a;
    uint16_t* narrow_b;
    void* workspace;
  };

  absl::StatusOr<std::unique_ptr<HeadProducts>> Make(int64_t samples) {
    return InPrecisionOrFp32(context_.precision(), [&](Precision precision) {
      return MakeIn(precision, samples);
    });
  }

  absl::StatusOr<std::unique_ptr<HeadProducts>> MakeIn(Precision precision,
                                                       int64_t samples) {
    const auto prepare = [&](ProductShape shape) {
      shape.batch = samples * shape_.heads;
      shape.precision = precision;
      return context_.backend().PrepareProduct(shape);
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
    const auto round_up = [](int64_t floats) {
      return (floats * static_cast<int64_t>(sizeof(float)) + 255) / 256 * 256;
    };
    const int64_t rows = round_up(samples * shape_.output_size());
    const int64_t squares =
        round_up(samples * shape_.heads * shape_.length * shape_.length);
    int64_t a = 0, b = 0, workspace = 0;  // Bytes.
    for (const Product* product :
         {products.scores.get(), products.outputs.get(),
          products.transposed.get()}) {
      const ProductShape& shape = product->shape();
      if (Is16Bit(shape.precision)) {
        a = std::max(a, round_up((shape.a_size() + 1) / 2));
        b = std::max(b, round_up((shape.b_size() + 1) / 2));
      }
      workspace = std::max(workspace, product->workspace_bytes());
    }
    auto memory = context_.Scratch(4 * rows + 2 * squares + a + b + workspace);
    if (!memory.ok()) return Named(name_, memory.status());
    const auto at = [&](int64_t bytes) {
      return reinterpret_cast<float*>(*memory + bytes);
    };
    const int64_t floats = 4 * rows + 2 * squares;
    return Arrays{at(0),
                  at(rows),
                  at(2 * rows),
                  at(3 * rows),
                  at(4 * rows),
                  at(4 * rows + squares),
                  reinterpret_cast<uint16_t*>(at(floats)),
                  reinterpret_cast<uint16_t*>(at(floats + a)),
                  at(floats + a + b)};
  }

  absl::Status Split(int64_t samples, const float* x, const Arrays& a) {
    float* const parts[3] = {a.query, a.key, a.value};
    for (int part = 0; part < 3; ++part) {
      SLUICE_RETURN_IF_ERROR(context_.Launched(
          name_, SplitHeads(context_.stream(), shape_, samples, 3, part, x,
                            parts[part])));
    }
    return absl::OkStatus();
  }

  absl::Status Probabilities(int64_t samples, HeadProducts* products,
                             const Arrays& a) {
    SLUICE_RETURN_IF_ERROR(
        Run(products->scores.get(), a.key, a.query, a.probabilities, a));
    return context_.Launched(name_, CausalSoftmax(context_.stream(), shape_,
                                                  samples, a.probabilities));
  }

  absl::Status Run(Product* product, const float* a, const float* b, float* d,
                   const Arrays& arrays) {
    const ProductShape& shape = product->shape();
    if (!Is16Bit(shape.precision)) {
      return Named(name_, product->Run(a, b, nullptr, d, arrays.workspace));
    }
    SLUICE_RETURN_IF_ERROR(
        NarrowTo(arrays.narrow_a, shape.precision, shape.a_size(), a));
    SLUICE_RETURN_IF_ERROR(
        NarrowTo(arrays.narrow_b, shape.precision, shape.b_size(), b));
    return Named(name_, product->Run(arrays.narrow_a, arrays.narrow_b, nullptr,
                                     d, arrays.workspace));
  }

  absl::Status NarrowTo(uint16_t* to, Precision precision, int64_t size,
                        const float* from) {
    return context_.Launched(
        name_, Narrow(context_.stream(), precision, size, from, to));
  }

  OpContext& context_;
  const std::string name_;
  const AttentionShape shape_;
  PerSamples<HeadProducts> prepared_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<EmbeddingOp>> MakeEmbedding(
    OpContext* context, const EmbeddingShape& shape, int64_t max_samples) {
  std::string name = absl::StrCat("embedding ", shape.vocabulary, " to ",
                                  shape.features, ", length ", shape.length);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, shape.output_size()));
  SLUICE_RETURN_IF_ERROR(CheckSize(name, shape.vocabulary, shape.features));
  return std::make_unique<Embedding>(context, std::move(name), shape);
}

absl::StatusOr<std::unique_ptr<LayerNormOp>> MakeLayerNorm(
    OpContext* context, const LayerNormShape& shape, int64_t max_samples) {
  std::string name =
      absl::StrCat("layer_norm ", shape.rows, "x", shape.features);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, shape.size()));
  return std::make_unique<LayerNorm>(context, std::move(name), shape);
}

absl::StatusOr<std::unique_ptr<MapOp>> MakeAttention(
    OpContext* context, const AttentionShape& shape, int64_t max_samples) {
  std::string name = absl::StrCat("attention ", shape.heads, "x",
                                  shape.head_size, ", length ", shape.length);
  SLUICE_RETURN_IF_ERROR(CheckSize(name, max_samples, shape.input_size()));
  SLUICE_RETURN_IF_ERROR(
      CheckSize(name, max_samples, shape.heads * shape.length * shape.length));
  auto op = std::make_unique<Attention>(context, std::move(name), shape);
  SLUICE_RETURN_IF_ERROR(op->For(max_samples).status());
  return op;
}

}  // namespace sluice::kernels::cuda

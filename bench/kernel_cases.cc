#include "bench/kernel_cases.h"

#include "absl/strings/str_cat.h"

namespace sluice::bench {
namespace {

using kernels::MapKind;

template <typename Case>
std::vector<Case> WorthIt(const std::vector<Case>& cases) {
  std::vector<Case> some;
  for (const Case& c : cases) {
    if (c.benchmark) some.push_back(c);
  }
  return some;
}

// Samples of this many floats that together have at least `mib` MiB.
int64_t SamplesOf(int64_t mib, int64_t size) {
  return ((mib << 18) + size - 1) / size;
}

// Layers of ResNet-50, of VGG-16 and of a transformer.
std::vector<kernels::LinearCase> LinearInMemory(int64_t mib) {
  std::vector<kernels::LinearCase> cases;
  const auto add = [&](const char* name, const auto& shape) {
    cases.push_back({name, shape, SamplesOf(mib, shape.input_size())});
  };
  add("dense 1024 to 4096", kernels::DenseShape{1024, 4096});
  add("dense 4096 to 4096", kernels::DenseShape{4096, 4096});
  // inputs, height, width, outputs, kernel, stride, padding.
  add("conv2d 3x224x224 to 64, 7x7",
      kernels::Conv2dShape{3, 224, 224, 64, 7, 2, 3});
  add("conv2d 64x64x64 to 64, 3x3",
      kernels::Conv2dShape{64, 64, 64, 64, 3, 1, 1});
  add("conv2d 256x16x16 to 256, 3x3",
      kernels::Conv2dShape{256, 16, 16, 256, 3, 1, 1});
  add("conv2d 1024x16x16 to 256, 1x1",
      kernels::Conv2dShape{1024, 16, 16, 256, 1, 1, 0});
  return cases;
}

std::vector<kernels::MapCase> MapsInMemory(int64_t mib) {
  std::vector<kernels::MapCase> cases;
  // Images of 1 MiB, as the arrays of the activations have.
  constexpr int64_t kSize = 1 << 18;
  const auto add = [&](const char* name, MapKind kind,
                       const kernels::PoolShape& pool = {}) {
    cases.push_back({name, kind, pool, kSize, mib});
  };
  add("relu", MapKind::kRelu);
  add("tanh", MapKind::kTanh);
  add("sigmoid", MapKind::kSigmoid);
  add("gelu", MapKind::kGelu);
  // channels, height, width, kernel, stride, padding.
  add("max_pool 2, stride 2", MapKind::kMaxPool, {64, 64, 64, 2, 2, 0});
  add("max_pool 3, stride 2", MapKind::kMaxPool, {64, 64, 64, 3, 2, 1});
  add("average_pool 2, stride 2", MapKind::kAveragePool, {64, 64, 64, 2, 2, 0});
  add("average_pool 3, stride 2", MapKind::kAveragePool, {64, 64, 64, 3, 2, 1});
  add("global_average_pool 16x16", MapKind::kGlobalAveragePool,
      {1024, 16, 16, 1, 1, 0});
  return cases;
}

std::vector<kernels::BatchNormCase> BatchNormsInMemory(int64_t mib) {
  std::vector<kernels::BatchNormCase> cases;
  const auto add = [&](const char* name, const kernels::BatchNormShape& shape) {
    cases.push_back({name, shape, SamplesOf(mib, shape.size())});
  };
  add("batch_norm 64x64x64", {64, 64 * 64});
  add("batch_norm 2048x7x7", {2048, 7 * 7});
  add("batch_norm 1024", {1024, 1});
  return cases;
}

RowsCase Rows(std::string name, int64_t width, int64_t mib) {
  return {std::move(name), width, SamplesOf(mib, width)};
}

}  // namespace

KernelCases CasesInCache() {
  return {.linear = WorthIt(kernels::LinearCases()),
          .attentions = WorthIt(kernels::AttentionCases()),
          .maps = WorthIt(kernels::MapCases()),
          .dropouts = {{"dropout 4704 n64", 6 * 28 * 28, 64}},
          .sums = {{"sum 4704 n64", 6 * 28 * 28, 64}},
          .cross_entropies = {{"cross_entropy 10 n64", 10, 64}},
          .squared_errors = {{"squared_error 10 n64", 10, 64}},
          .vector_adds = {{"vector add 4704 n64", 6 * 28 * 28, 64}},
          .vector_squares = {{"vector squares 4704 n64", 6 * 28 * 28, 64}},
          .batch_norms = WorthIt(kernels::BatchNormCases()),
          .layer_norms = WorthIt(kernels::LayerNormCases()),
          .embeddings = WorthIt(kernels::EmbeddingCases())};
}

KernelCases CasesInMemory(int64_t mib) {
  const auto attention = [mib](const kernels::AttentionShape& shape) {
    return kernels::AttentionCase{
        absl::StrCat("attention ", shape.heads, "x", shape.head_size,
                     ", length ", shape.length),
        shape, SamplesOf(mib, shape.input_size())};
  };
  // length, heads, head_size.
  return {.linear = LinearInMemory(mib),
          .attentions = {attention({128, 4, 32}), attention({1024, 16, 64})},
          .maps = MapsInMemory(mib),
          .dropouts = {Rows("dropout", 1 << 18, mib)},
          .sums = {Rows("sum", 1 << 18, mib)},
          .cross_entropies = {Rows("cross_entropy 10", 10, 4 * mib),
                              Rows("cross_entropy 1024", 1024, 4 * mib)},
          .squared_errors = {Rows("squared_error 1024", 1024, 4 * mib)},
          .vector_adds = {Rows("vector add", 1 << 18, mib)},
          .vector_squares = {Rows("vector squares", 1 << 18, 4 * mib)},
          .batch_norms = BatchNormsInMemory(mib),
          // rows, features; length, vocabulary, features.
          .layer_norms = {{"layer_norm 1024", {256, 1024}, mib}},
          .embeddings = {{"embedding 256 to 1024", {256, 256, 1024}, mib}}};
}

}  // namespace sluice::bench
